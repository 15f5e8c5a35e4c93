"""Contextual bandit ranking: unavailable items get the least score seen so far (a running device scalar)."""
import torch
import torch.nn as nn

import graphsafe


class Ranker(nn.Module):
    def __init__(self, items=200, width=24):
        super().__init__()
        self.items = nn.Parameter(torch.randn(items, width))
        self.user = nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, width))
        self.register_buffer("least", torch.zeros(()))

    def forward(self, context, available):
        scores = self.user(context) @ self.items.T
        self.least.copy_(torch.minimum(self.least * 0.999, scores.amin()))
        scores = scores.masked_fill(~available, self.least)
        top = scores.topk(5, -1)
        explore = torch.distributions.Gumbel(0.0, 1.0, validate_args=False)
        noise = -torch.log(-torch.log(torch.rand_like(scores).clamp(1e-6, 1 - 1e-6)))
        return top.values, (scores + 0.2 * noise).amax(-1), explore.mean


def build(device):
    ranker = Ranker().to(device).eval().requires_grad_(False)
    context = torch.randn(8, 10, device=device)
    available = torch.rand(8, 200, device=device) < 0.7

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 10))
        args[1].copy_(torch.rand(8, 200) < 0.7)

    return graphsafe.Step(ranker, (context, available), {}, refresh=refresh)
