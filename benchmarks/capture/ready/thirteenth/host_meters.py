"""Evaluation step whose meters live on the host (torchmetrics in the old style): they count what was seen."""
from dataclasses import dataclass

import torch
import torch.nn as nn

import graphsafe


@dataclass
class Report:
    logits: torch.Tensor
    margin: torch.Tensor
    seen: torch.Tensor
    weight: torch.Tensor


class Meter:
    def __init__(self):
        self.seen = torch.zeros((), dtype=torch.float64)
        self.weight = torch.ones((), dtype=torch.float64)

    def update(self, n):
        self.seen += n
        self.weight *= 0.99


class Evaluator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(24, 48), nn.SiLU(), nn.Linear(48, 7))
        self.meter = Meter()

    def forward(self, x, mask):
        logits = self.net(x).masked_fill(~mask[:, None], 0.0)
        top = logits.topk(2, -1).values
        self.meter.update(len(x))
        return Report(logits, (top[:, 0] - top[:, 1]) * mask, self.meter.seen, self.meter.weight)


def build(device):
    evaluator = Evaluator().to(device).eval().requires_grad_(False)
    x = torch.randn(20, 24, device=device)
    mask = torch.arange(20, device=device) < 15

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(20, 24))
        args[1].copy_(torch.arange(20) < 5 + k % 15)

    return graphsafe.Step(evaluator, (x, mask), {}, refresh=refresh)
