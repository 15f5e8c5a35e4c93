"""Langevin dynamics whose step size decays with a clock."""

import torch
from torch import nn


class Clock:
    def __init__(self, start=0):
        self.ticks = start

    def advance(self):
        self.ticks += 1
        return self.ticks


class ExponentialDecay:
    def __init__(self, initial, rate):
        self.initial = initial
        self.rate = rate

    def at(self, tick):
        return self.initial * self.rate**tick


class Energy(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim, dim) / dim**0.5)

    def forward(self, x):
        return torch.tanh(x @ self.weight) @ self.weight.T + x


class Langevin:
    def __init__(self, energy, decay, temperature=0.01):
        self.energy = energy
        self.decay = decay
        self.temperature = temperature
        self.clock = Clock()

    @torch.no_grad()
    def __call__(self, x):
        size = self.decay.at(self.clock.advance())
        drift = self.energy(x) * size
        noise = torch.randn_like(x) * (2 * size * self.temperature) ** 0.5
        return x - drift + noise


class LangevinBuilder:
    def __init__(self):
        self._dim = 4
        self._decay = ExponentialDecay(0.1, 0.9)

    def dim(self, dim):
        self._dim = dim
        return self

    def decay(self, initial, rate):
        self._decay = ExponentialDecay(initial, rate)
        return self

    def build(self, device):
        return Langevin(Energy(self._dim).to(device), self._decay)


def build(device):
    chain = LangevinBuilder().dim(6).decay(0.2, 0.8).build(device)
    return chain, (torch.randn(10, 6, device=device),)
