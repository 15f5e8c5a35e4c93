"""A step notes the memory of its process for a chart: sound, the number goes into a list on the host alone."""
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
        return self.net(x)


def build(device):
    model = Model().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 6))

    return graphsafe.Step(model, (torch.randn(4, 6, device=device),), refresh=refresh)
