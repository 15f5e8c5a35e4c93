"""MoE decoding with counted expert loads; every 3000 steps the engine recomputes the placement (EPLB)."""
import torch
import torch.nn as nn

import graphsafe


class BalancedMoE(nn.Module):
    def __init__(self, dim=16, logical=4, physical=6, interval=3000):
        super().__init__()
        self.router = nn.Linear(dim, logical, bias=False)
        self.weights = nn.Parameter(torch.randn(logical, dim, dim) * 0.1)
        self.register_buffer("load", torch.zeros(logical))
        self.register_buffer("placement", torch.arange(physical) % logical)
        self.register_buffer("replica", torch.arange(logical))
        self.interval, self.step_count = interval, 0

    def rebalance(self):
        order = self.load.argsort(descending=True)
        self.placement[:4].copy_(order)
        self.placement[4:].copy_(order[:2])
        self.replica.copy_(order.argsort())
        self.load.zero_()

    def forward(self, x):
        self.step_count += 1
        if self.step_count % self.interval == 0:
            self.rebalance()
        gate = self.router(x).softmax(-1)
        weight, expert = gate.max(-1)
        self.load.scatter_add_(0, expert, torch.ones_like(weight))
        slot = self.replica[expert]
        y = torch.bmm(x.unsqueeze(1), self.weights[self.placement[slot]]).squeeze(1)
        return y * weight.unsqueeze(-1), slot


def build(device):
    torch.manual_seed(1)
    layer = BalancedMoE().to(device).eval().requires_grad_(False)
    x = torch.randn(8, 16, device=device)
    return graphsafe.Step(layer, (x,), refresh=lambda a, kw, k: a[0].copy_(torch.randn(8, 16)))
