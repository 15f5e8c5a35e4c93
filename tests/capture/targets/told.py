"""Steps whose report has to name the cause, and the repair that belongs to it."""

import torch
import torch.nn.functional as F
from torch import nn


def adamw(device):
    model = nn.Linear(8, 4).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x, y):
        optimizer.zero_grad(set_to_none=False)
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (torch.randn(4, 8, device=device), torch.randn(4, 4, device=device))


def growing_dictionary(device):
    seen = {}

    def step(x):
        seen[len(seen)] = x.sum()
        return x * 2

    return step, (torch.randn(4, 8, device=device),)


def bounded_list(device):
    seen = []

    def step(x):
        seen[:] = [*seen[-3:], x.shape[0]]
        return x * 2

    return step, (torch.randn(4, 8, device=device),)


class Unreached(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        y = self.linear(x)
        if y.shape[0] > 64:
            y = y[y > 0]
        return y


def unreached(device):
    return Unreached().to(device).requires_grad_(False), (torch.randn(4, 8, device=device),)
