"""Two-step predictor: results are copied into a history on the device, and fed back."""
import torch
from torch import nn

import graphsafe


class Loop:
    def __init__(self, device):
        torch.manual_seed(8)
        self.net = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 12)).to(device).requires_grad_(False)
        self.out = torch.zeros(3, 12, device=device)
        self.history = [torch.zeros(3, 12, device=device) for _ in range(2)]

    def step(self, x):
        self.out.copy_(self.net(x))
        return self.out

    def advance(self, x, noise):
        self.history = [self.history[1], self.out.clone()]
        x.copy_(noise.to(x.device) + 2 * self.history[1] - self.history[0])


def build(device):
    loop = Loop(device)
    x = torch.randn(3, 12, device=device)

    def refresh(args, kwargs, k):
        loop.advance(args[0], torch.randn(3, 12))

    def reset():
        loop.out.zero_()
        loop.history = [torch.zeros_like(loop.out) for _ in range(2)]

    return graphsafe.Step(loop.step, (x,), refresh=refresh, reset=reset)
