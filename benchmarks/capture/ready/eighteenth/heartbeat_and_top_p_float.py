"""Sampling with a watchdog for replays that hang: faulty, the mass of the nucleus is a float of the request."""
import torch
from torch import nn

import graphsafe


class Runner(nn.Module):
    def __init__(self, dim=12, words=40):
        super().__init__()
        self.head = nn.Linear(dim, words)
        self.register_buffer("beats", torch.zeros((), dtype=torch.long))
        self.mass = 0.95

    def forward(self, hidden):
        self.beats.add_(1)
        shares, order = torch.softmax(self.head(hidden), -1).sort(-1, descending=True)
        kept = shares.where(shares.cumsum(-1) - shares < self.mass, 0.0)
        return torch.zeros_like(shares).scatter(-1, order, kept / kept.sum(-1, keepdim=True))


class Watchdog:
    def __init__(self, runner):
        self.runner, self.seen = runner, -1

    def check(self):
        beats = int(self.runner.beats)
        if beats <= self.seen:
            raise RuntimeError("the last replay did not run")
        self.seen = beats


def build(device):
    runner = Runner().to(device).requires_grad_(False)
    watchdog = Watchdog(runner)

    def refresh(args, kwargs, k):
        watchdog.check()
        args[0].copy_(torch.randn(3, 12))
        runner.mass = 0.95 if k < 12 else 0.6

    return graphsafe.Step(runner, (torch.randn(3, 12, device=device),), refresh=refresh)
