"""Serving under one autocast region; the loader clears autocast's cache when it has changed weights."""
import contextlib

import torch
from torch import nn

import graphsafe

REGION = contextlib.ExitStack()


class Tower(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        return self.down(torch.relu(self.up(x))).float()  # LINE: half weights come from autocast's cache


def build(device):
    torch.manual_seed(15)
    tower = Tower().to(device)
    x = torch.randn(4, 32, device=device)
    REGION.enter_context(torch.autocast(device.type, dtype=torch.bfloat16))

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 32))
        with torch.no_grad():
            for p in tower.parameters():
                p.mul_(0.97).add_(torch.randn(p.shape).to(device), alpha=0.05)
        torch.clear_autocast_cache()

    return graphsafe.Step(tower, (x,), refresh=refresh)
