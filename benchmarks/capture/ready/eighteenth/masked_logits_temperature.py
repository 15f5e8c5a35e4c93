"""A step returns logits with forbidden tokens at -1e9: faulty, their temperature is a float of the request."""
import torch
from torch import nn

import graphsafe


class Head(nn.Module):
    def __init__(self, dim=16, words=40):
        super().__init__()
        self.proj = nn.Linear(dim, words)
        self.temperature = 0.7

    def forward(self, hidden, allowed):
        return (self.proj(hidden) / self.temperature).masked_fill(~allowed, -1e9)


def build(device):
    head = Head().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 16))
        args[1].copy_(torch.rand(4, 40) > 0.3)
        head.temperature = 0.7 + 0.1 * (k // 20 % 4)

    args = (torch.randn(4, 16, device=device), torch.ones(4, 40, dtype=torch.bool, device=device))
    return graphsafe.Step(head, args, refresh=refresh)
