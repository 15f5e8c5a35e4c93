"""A Karras sampler whose schedules are registered by name."""

import random
from typing import Callable

import torch
from torch import nn

SCHEDULES: dict[str, Callable] = {}


def schedule(name):
    def register(fn):
        SCHEDULES[name] = fn
        return fn

    return register


@schedule("karras")
def karras(count, low, high, rho=7.0):
    top, bottom = high ** (1 / rho), low ** (1 / rho)
    return [(top + i / (count - 1) * (bottom - top)) ** rho for i in range(count)]


@schedule("linear")
def linear(count, low, high):
    return [high + (low - high) * i / (count - 1) for i in range(count)]


class Denoiser(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(width + 1, 32), nn.SiLU(), nn.Linear(32, width))

    def forward(self, x, sigma):
        return self.inner(torch.cat([x, sigma.expand(x.shape[0], 1)], dim=1))


class KarrasSampler:
    def __init__(self, net, name="karras", count=4, churn=0.5):
        self.net = net
        self.churn = churn
        self.sigmas = SCHEDULES[name](count, 0.02, 8.0)

    def _stir(self, x, sigma):
        if random.random() < self.churn:
            return x * (1.0 + 0.05 * sigma)
        return x

    @torch.inference_mode()
    def __call__(self, x):
        for sigma, following in zip(self.sigmas, self.sigmas[1:]):
            x = self._stir(x, sigma)
            level = torch.tensor([[sigma]], device=x.device)
            slope = (x - self.net(x, level)) / sigma
            x = x + slope * (following - sigma)
        return x


def build(device):
    net = Denoiser(8).to(device)
    return KarrasSampler(net), (torch.randn(6, 8, device=device),)
