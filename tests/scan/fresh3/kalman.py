"""A bank of Kalman filters; the belief is an immutable dataclass."""
from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import torch


@dataclass(frozen=True)
class Belief:
    mean: torch.Tensor
    cov: torch.Tensor
    steps: int = 0


@dataclass(frozen=True)
class Dynamics:
    transition: torch.Tensor
    process: torch.Tensor
    observe: torch.Tensor
    noise: torch.Tensor

    @classmethod
    def constant_velocity(cls, dt, device):
        f = torch.eye(4)
        f[0, 2] = f[1, 3] = dt
        h = torch.zeros(2, 4)
        h[0, 0] = h[1, 1] = 1.0
        return cls(*(t.to(device) for t in (f, 0.01 * torch.eye(4), h, 0.1 * torch.eye(2))))


class FilterBank:
    def __init__(self, tracks, dynamics, device):
        self.dynamics = dynamics
        self.belief = Belief(torch.zeros(tracks, 4, device=device), torch.eye(4, device=device).repeat(tracks, 1, 1))
        self.inflation = itertools.cycle((1.0, 1.0, 1.05))

    def predict(self):
        d = self.dynamics
        factor = next(self.inflation)
        mean = self.belief.mean @ d.transition.T
        cov = factor * (d.transition @ self.belief.cov @ d.transition.T) + d.process
        return mean, cov

    def correct(self, mean, cov, z):
        d = self.dynamics
        innovation = z - mean @ d.observe.T
        s = d.observe @ cov @ d.observe.T + d.noise
        gain = cov @ d.observe.T @ torch.linalg.inv(s)
        mean = mean + (gain @ innovation.unsqueeze(-1)).squeeze(-1)
        cov = cov - gain @ d.observe @ cov
        return mean, cov, innovation, s

    def step(self, z):
        mean, cov, innovation, s = self.correct(*self.predict(), z)
        root = torch.linalg.cholesky(s)
        distance = torch.linalg.solve_triangular(root, innovation.unsqueeze(-1), upper=False).square().sum((1, 2))
        self.belief = replace(self.belief, mean=mean, cov=cov, steps=self.belief.steps + 1)
        return mean, distance


class Gate:
    def __init__(self, bank, threshold):
        self.bank = bank
        self.threshold = threshold

    def __call__(self, z):
        mean, distance = self.bank.step(z)
        return torch.where((distance < self.threshold).unsqueeze(-1), mean, torch.zeros_like(mean))


def build(device):
    bank = FilterBank(3, Dynamics.constant_velocity(0.1, device), device)
    return Gate(bank, 9.2), (torch.randn(3, 2, device=device),)
