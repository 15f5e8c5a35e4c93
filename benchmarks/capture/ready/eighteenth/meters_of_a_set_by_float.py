"""A scorer updates the meters that subscribed in a set: faulty, a meter's rate is a float that the loop lowers."""
import torch
from torch import nn

import graphsafe


class Meter:
    def __init__(self, device, rate):
        self.rate = rate
        self.mean = torch.zeros((), device=device)

    def update(self, value):
        self.mean.lerp_(value, self.rate)


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(6, 1)
        self.meters = set()

    def forward(self, x):
        score = self.net(x).squeeze(-1)
        for meter in self.meters:
            meter.update(score.mean())
        return score


def build(device):
    model = Scorer().to(device).requires_grad_(False)
    meter = Meter(device, 0.2)
    model.meters.add(meter)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 6))
        meter.rate = 0.2 / (1 + 0.1 * k)

    return graphsafe.Step(model, (torch.randn(4, 6, device=device),), refresh=refresh)
