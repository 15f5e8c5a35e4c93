"""A classifier's class is written inside its factory and keeps the drift of its inputs: faulty, the rate is a float."""
from types import SimpleNamespace

import torch
from torch import nn

import graphsafe


def build(device, dim=6):
    drift = torch.zeros(dim, device=device)
    settings = SimpleNamespace(rate=0.1)

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(dim, 3)

        def forward(self, x):
            drift.lerp_(x.mean(0), settings.rate)
            return self.net(x)

    model = Classifier().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, dim) + 0.01 * k)
        settings.rate = 0.1 if k < 30 else 0.01

    return graphsafe.Step(model, (torch.randn(8, dim, device=device),), refresh=refresh)
