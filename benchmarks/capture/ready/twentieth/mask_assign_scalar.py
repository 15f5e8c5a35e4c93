"""Masked assignment of Python scalars, as everywhere in model code: scores[mask] = -inf, x[x < 0] = 0."""
import torch
import torch.nn as nn

import graphsafe


class GraphAttention(nn.Module):
    def __init__(self, d=16, out=8, heads=2):
        super().__init__()
        self.heads, self.out = heads, out
        self.w = nn.Linear(d, heads * out, bias=False)
        self.a_src = nn.Parameter(torch.randn(heads, out) * 0.1)
        self.a_dst = nn.Parameter(torch.randn(heads, out) * 0.1)

    def forward(self, x, adj):
        n = x.shape[0]
        h = self.w(x).view(n, self.heads, self.out)
        e = (h * self.a_src).sum(-1)[:, None] + (h * self.a_dst).sum(-1)[None]
        e = torch.nn.functional.leaky_relu(e, 0.2).permute(2, 0, 1)
        e[:, ~adj] = float("-inf")
        alpha = e.softmax(-1)
        y = torch.einsum("hij,jhd->ihd", alpha, h).flatten(1)
        y[y.abs() > 6] = 0.0
        return y


def build(device, n=10):
    layer = GraphAttention().to(device).eval().requires_grad_(False)
    x = torch.randn(n, 16, device=device)
    adj = torch.eye(n, dtype=torch.bool, device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(n, 16))
        args[1].copy_((torch.rand(n, n) < 0.3) | torch.eye(n, dtype=torch.bool))

    return graphsafe.Step(layer, (x, adj), refresh=refresh)
