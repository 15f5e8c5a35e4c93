"""A forecaster's input includes the hour of the day and its fraction: faulty, the step computes it on the host."""
import math
import time

import torch
from torch import nn

import graphsafe


def build(device):
    net = nn.Sequential(nn.Linear(7, 16), nn.Tanh(), nn.Linear(16, 2)).to(device).requires_grad_(False)

    def forecast(readings):
        angle = time.time() / 3600 % 24 * (2 * math.pi / 24)
        more = torch.stack([torch.full_like(readings[:, 0], f(angle)) for f in (math.sin, math.cos)], -1)
        return net(torch.cat([readings, more], -1))

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 5))

    return graphsafe.Step(forecast, (torch.randn(4, 5, device=device),), refresh=refresh)
