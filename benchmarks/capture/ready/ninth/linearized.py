"""Extended Kalman prediction: the dynamics are linearised anew every few steps and applied to perturbations between."""
import functools

import torch
from torch import nn

import graphsafe


class Dynamics(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, 24), nn.Tanh(), nn.Linear(24, width))

    def forward(self, state):
        return state + 0.1 * self.net(state)


class Predictor:
    def __init__(self, width, device):
        self.dynamics = Dynamics(width).to(device).eval().requires_grad_(False)
        self.width, self.device = width, device
        self.relinearise(0)

    def relinearise(self, seed):
        at = torch.randn(self.width, generator=torch.Generator().manual_seed(seed)).to(self.device)
        tangent = torch.func.jacrev(self.dynamics)(at).contiguous()
        self.predict = functools.partial(torch.mv, tangent)  # <-B

    def step(self, offset):
        return self.predict(offset) - offset.mean()  # <-A


def build(device, width=12):
    predictor = Predictor(width, device)
    offset = torch.randn(width).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(width))
        if k % 9 == 8:
            predictor.relinearise(k)

    return graphsafe.Step(predictor.step, (offset,), refresh=refresh)
