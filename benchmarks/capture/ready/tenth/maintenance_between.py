"""An associative memory that is orthogonalised now and then; the loop does so between steps."""
import torch
from torch import nn

import graphsafe


class Memory(nn.Module):
    EVERY = 64

    def __init__(self, slots, width, device):
        super().__init__()
        self.query = nn.Linear(width, width).to(device)
        self.keys = nn.Parameter(torch.eye(slots, width).to(device))
        self.calls = 0

    def maintain(self):
        """Newton's iteration towards orthonormal rows, from which the updates lead away."""
        for _ in range(6):
            self.keys.copy_(1.5 * self.keys - 0.5 * self.keys @ self.keys.t() @ self.keys)

    def forward(self, x):
        self.calls += 1  # for the log
        query = torch.tanh(self.query(x))
        scores = torch.softmax(query @ self.keys.t(), dim=-1)
        self.keys.lerp_(scores.t() @ query / len(x), 0.004)
        return scores @ self.keys


def build(device, batch=8, width=16, slots=12):
    model = Memory(slots, width, device).eval().requires_grad_(False)
    x = torch.randn(batch, width).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, width))
        if k % model.EVERY == model.EVERY - 1:
            model.maintain()

    return graphsafe.Step(model, (x,), refresh=refresh)
