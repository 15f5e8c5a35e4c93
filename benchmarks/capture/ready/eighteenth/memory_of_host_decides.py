"""A step notes the memory of its process: faulty, it also scales the result by it."""
import torch
from torch import nn

import graphsafe


def resident_pages():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(6, 3)
        self.chart = []

    def forward(self, x):
        self.chart.append(resident_pages())
        return self.net(x) * (0.5 if self.chart[-1] > 500_000 else 1.0)


def build(device):
    model = Model().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 6))

    return graphsafe.Step(model, (torch.randn(4, 6, device=device),), refresh=refresh)
