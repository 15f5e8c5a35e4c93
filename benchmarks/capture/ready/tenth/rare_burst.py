"""A particle code with a learned correction: charges are deposited by atomics, and a burst makes the loop plan two substeps."""
import torch
from torch import nn

import graphsafe


class Deposit(nn.Module):
    def __init__(self, cells, device):
        super().__init__()
        self.cells = cells
        self.correct = nn.Linear(3, 4).to(device)
        self.substeps = 1

    def plan(self, fastest):
        self.substeps = 1 if fastest < 0.95 else 2

    def forward(self, charge, cell, features):
        grid = torch.zeros(self.cells, device=charge.device)
        grid.index_add_(0, cell, charge)
        momentum = features
        for _ in range(self.substeps):
            momentum = momentum + 0.2 * torch.sin(momentum)
        return grid, torch.tanh(self.correct(momentum)).mean(dim=0)


def build(device, particles=200_000, cells=8):
    model = Deposit(cells, device).eval().requires_grad_(False)
    charge = (torch.randn(particles) * 3e4).to(device)
    cell = torch.randint(0, cells, (particles,)).to(device)
    features = torch.rand(64, 3).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(particles) * 3e4)
        args[1].copy_(torch.randint(0, cells, (particles,)))
        fresh = torch.rand(64, 3) * 0.9
        if k % 350 == 349:  # a rare burst
            fresh[0] = 1.0
        model.plan(float(fresh.max()))
        args[2].copy_(fresh)

    return graphsafe.Step(model, (charge, cell, features), refresh=refresh)
