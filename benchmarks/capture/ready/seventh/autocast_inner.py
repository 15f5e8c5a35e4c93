"""Serving with autocast inside the step: casts are made and dropped by each step."""
import torch
from torch import nn

import graphsafe


class Tower(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            h = torch.relu(self.up(x))
            return self.down(h).float() + self.down(h * 0.5).float()  # the cast of one weight is used twice


def build(device):
    torch.manual_seed(15)
    tower = Tower().to(device)
    x = torch.randn(4, 32, device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 32))
        with torch.no_grad():
            for p in tower.parameters():
                p.mul_(0.97).add_(torch.randn(p.shape).to(device), alpha=0.05)

    return graphsafe.Step(tower, (x,), refresh=refresh)
