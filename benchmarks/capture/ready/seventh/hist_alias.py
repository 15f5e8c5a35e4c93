"""Two-step predictor: the loop keeps the last two results and feeds their difference back."""
import collections

import torch
from torch import nn

import graphsafe


class Loop:
    def __init__(self, device):
        torch.manual_seed(8)
        self.net = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 12)).to(device).requires_grad_(False)
        self.last = torch.zeros(3, 12, device=device)
        self.history = collections.deque([self.last.clone(), self.last.clone()], maxlen=2)

    def step(self, x):
        self.last = self.net(x)  # LINE: one memory for all replays, kept by the loop
        return self.last

    def advance(self, x, noise):
        self.history.append(self.last)
        x.copy_(noise.to(x.device) + 2 * self.history[1] - self.history[0])


def build(device):
    loop = Loop(device)
    x = torch.randn(3, 12, device=device)

    def refresh(args, kwargs, k):
        loop.advance(args[0], torch.randn(3, 12))

    return graphsafe.Step(loop.step, (x,), refresh=refresh)
