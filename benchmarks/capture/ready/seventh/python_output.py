"""A decode step whose result carries host fields that the serving loop acts on."""
from typing import NamedTuple

import torch
from torch import nn

import graphsafe


class StepOutput(NamedTuple):
    logits: torch.Tensor
    position: int
    finished: bool


class Engine:
    def __init__(self, device, limit=40):
        torch.manual_seed(7)
        self.model = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 50)).to(device).requires_grad_(False)
        self.limit = limit
        self.emitted = 0

    def step(self, hidden):
        logits = self.model(hidden)
        self.emitted += 1
        return StepOutput(logits, self.emitted, self.emitted >= self.limit)  # LINE: frozen in the result


def build(device):
    engine = Engine(device)
    hidden = torch.randn(2, 16, device=device)
    return graphsafe.Step(engine.step, (hidden,), refresh=lambda a, kw, k: a[0].copy_(torch.randn(2, 16)))
