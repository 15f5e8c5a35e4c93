"""A particle code with a learned correction: charges are deposited on a grid by atomics, and features are scaled as the first batch says."""
import torch
from torch import nn

import graphsafe


class Deposit(nn.Module):
    def __init__(self, particles, cells, device):
        super().__init__()
        self.cells = cells
        self.correct = nn.Linear(3, 4).to(device)
        self.scale = None

    def forward(self, charge, cell, features):
        grid = torch.zeros(self.cells, device=charge.device)
        grid.index_add_(0, cell, charge)
        if self.scale is None:
            self.scale = features.abs().amax(dim=0, keepdim=True)
        correction = torch.tanh(self.correct(features / self.scale)).mean(dim=0)
        return grid, correction


def build(device, particles=200_000, cells=8):
    model = Deposit(particles, cells, device).eval().requires_grad_(False)
    charge = (torch.randn(particles) * 3e4).to(device)
    cell = torch.randint(0, cells, (particles,)).to(device)
    features = torch.rand(64, 3).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(particles) * 3e4)
        args[1].copy_(torch.randint(0, cells, (particles,)))
        args[2].copy_(torch.rand(64, 3) * (1.0 + 0.5 * (k % 5)))

    return graphsafe.Step(model, (charge, cell, features), refresh=refresh)
