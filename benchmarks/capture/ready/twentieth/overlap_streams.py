"""Shared expert on a second stream beside the routed experts, forked and joined with wait_stream (vLLM style)."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Moe(nn.Module):
    def __init__(self, device, d=16, f=32, n=4):
        super().__init__()
        self.gate = nn.Linear(d, n, bias=False)
        self.w1 = nn.Parameter(torch.randn(n, d, f) * 0.2)
        self.w2 = nn.Parameter(torch.randn(n, f, d) * 0.2)
        self.shared = nn.Sequential(nn.Linear(d, f), nn.SiLU(), nn.Linear(f, d))
        self.aux = torch.cuda.Stream(device)

    def forward(self, x):
        main = torch.cuda.current_stream(x.device)
        self.aux.wait_stream(main)
        with torch.cuda.stream(self.aux):
            shared = self.shared(x)
            shared.record_stream(main)
        weights, idx = self.gate(x).softmax(-1).topk(2)
        mask = torch.zeros(x.shape[0], self.gate.out_features, device=x.device, dtype=x.dtype).scatter_(1, idx, weights)
        h = F.silu(torch.einsum("td,edf->tef", x, self.w1))
        routed = torch.einsum("tef,efd,te->td", h, self.w2, mask)
        main.wait_stream(self.aux)
        return routed + shared


def build(device, tokens=6):
    moe = Moe(device).to(device).eval().requires_grad_(False)
    x = torch.randn(tokens, 16, device=device)
    return graphsafe.Step(moe, (x,), refresh=lambda a, k, i: a[0].copy_(torch.randn(tokens, 16)))
