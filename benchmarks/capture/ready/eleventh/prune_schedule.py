"""Magnitude pruning makes a new mask at each stage of its schedule."""
import torch
from torch import nn
from torch.nn.utils import prune

import graphsafe


class Pruned(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)
        prune.identity(self.up, "weight")

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


def build(device):
    net = Pruned().to(device).eval().requires_grad_(False)

    def step(x):
        return net(x)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 16))
        if k in (90, 140):  # stages of the sparsity schedule
            prune.l1_unstructured(net.up, "weight", amount=0.3)

    return graphsafe.Step(step, (torch.randn(8, 16, device=device),), refresh=refresh)
