"""A particle filter with strategies given as functions."""
import functools
from typing import Callable

import torch


def systematic(weights, offset):
    points = (torch.arange(weights.numel(), device=weights.device) + offset) / weights.numel()
    return torch.searchsorted(weights.cumsum(0), points).clamp(max=weights.numel() - 1)


def survivors(weights, floor):
    return (weights > floor).nonzero().flatten()


def effective(weights):
    return 1.0 / weights.square().sum()


class Cloud:
    def __init__(self, count, device):
        self.state = torch.randn(count, 2, device=device)
        self.weight = torch.full((count,), 1.0 / count, device=device)


class Filter:
    def __init__(self, cloud, select: Callable, measure: Callable):
        self.cloud, self.select, self.measure = cloud, select, measure
        self.history = []

    def assimilate(self, seen):
        c = self.cloud
        like = torch.exp(-0.5 * (c.state - seen).square().sum(-1))
        weight = c.weight * like
        weight = weight / weight.sum()
        best = self.select(weight)
        centre = c.state[best].mean(0)
        self.history.append(self.measure(weight).cpu())
        c.state.add_(0.05 * torch.randn_like(c.state))
        c.weight.copy_(weight)
        return centre


def build(device):
    f = Filter(Cloud(32, device), functools.partial(survivors, floor=1e-6), effective)
    return f.assimilate, (torch.randn(2, device=device) * 0.1,)
