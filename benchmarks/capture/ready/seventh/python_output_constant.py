"""A decode step whose result carries constant host fields, with spectral norm in the head."""
from typing import NamedTuple

import torch
from torch import nn

import graphsafe


class StepOutput(NamedTuple):
    logits: torch.Tensor
    position: torch.Tensor
    vocab: int
    mode: str


class Engine:
    def __init__(self, device):
        torch.manual_seed(7)
        head = nn.utils.parametrizations.spectral_norm(nn.Linear(32, 50))
        self.model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.SiLU(), head).to(device).train()
        self.emitted = torch.zeros((), dtype=torch.int64, device=device)
        self.calls = 0

    @torch.no_grad()
    def step(self, hidden):
        self.calls += 1
        logits = self.model(hidden)
        self.emitted.add_(1)
        return StepOutput(logits, self.emitted.clone(), logits.shape[-1], "decode")


def build(device):
    engine = Engine(device)
    hidden = torch.randn(4, 16, device=device)
    return graphsafe.Step(engine.step, (hidden,), refresh=lambda a, kw, k: a[0].copy_(torch.randn(4, 16)))
