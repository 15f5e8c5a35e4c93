"""Serving with one LoRA slot: B is zero until an adapter comes; its alpha is set first, its matrices later."""
import torch
import torch.nn as nn

import graphsafe


class LoraLinear(nn.Module):
    def __init__(self, width=40, rank=8):
        super().__init__()
        self.base = nn.Linear(width, width)
        self.a = nn.Parameter(torch.randn(rank, width) / width**0.5)
        self.b = nn.Parameter(torch.zeros(width, rank))
        self.rank, self.scaling = rank, 1.0

    def configure(self, alpha):
        self.scaling = alpha / self.rank

    def load(self, a, b):
        self.a.copy_(a)
        self.b.copy_(b)

    def forward(self, x):
        return self.base(x) + (x @ self.a.T @ self.b.T) * self.scaling


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = LoraLinear(), LoraLinear()

    def forward(self, x):
        return x + self.down(torch.nn.functional.silu(self.up(x)))


def build(device):
    block = Block().to(device).requires_grad_(False)
    x = torch.randn(4, 40, device=device)

    def layers():
        return [m for m in block.modules() if isinstance(m, LoraLinear)]

    def announce():
        for layer in layers():
            layer.configure(alpha=32)

    def weights():
        torch.manual_seed(3)
        for layer in layers():
            layer.load(torch.randn(8, 40) / 6, torch.randn(40, 8) / 3)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 40))

    return graphsafe.Step(block, (x,), {}, refresh=refresh, events={"announce": announce, "weights": weights})
