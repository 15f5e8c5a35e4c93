"""Probes steer a model's residual stream while somebody holds them; the model knows them weakly."""
import gc
import weakref

import torch
from torch import nn

import graphsafe


class Probe:
    def __init__(self, direction, strength):
        self.direction, self.strength = direction, strength

    def __call__(self, h):
        return h + self.strength * self.direction


class Steered(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(12, 24), nn.Linear(24, 6)
        self.probes = weakref.WeakSet()

    def forward(self, x):
        h = torch.relu(self.one(x))
        for probe in sorted(self.probes, key=lambda p: p.strength):
            h = probe(h)
        return self.two(h)


class Session:
    """Holds the probes of an experiment; ends with it."""

    def __init__(self, model, device):
        self.probes = [Probe(torch.randn(24, device=device), 0.5 * (i + 1)) for i in range(2)]
        model.probes.update(self.probes)


def build(device):
    model = Steered().to(device).requires_grad_(False)
    sessions = {"lasting": Session(model, device), "short": Session(model, device)}

    def refresh(args, kwargs, k):
        if k == 77:
            sessions.pop("short")
            gc.collect()
        args[0].copy_(torch.randn(4, 12))

    return graphsafe.Step(model, (torch.randn(4, 12, device=device),), refresh=refresh)
