"""Diffusion sweep whose guidance is switched by coins thrown on the device."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Schedule:
    sigmas: tuple[float, ...]

    @classmethod
    def geometric(cls, high: float, low: float, steps: int) -> Schedule:
        ratio = (low / high) ** (1 / (steps - 1))
        return cls(tuple(high * ratio**i for i in range(steps)))

    def pairs(self):
        return zip(self.sigmas[:-1], self.sigmas[1:])


class ScoreNet(nn.Module):
    def __init__(self, dim: int, width: int):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(2 * dim, width), nn.SiLU(), nn.Linear(width, dim))

    def forward(self, x: torch.Tensor, sigma: float, cond: torch.Tensor) -> torch.Tensor:
        scaled = x / (1 + sigma**2) ** 0.5
        return self.inner(torch.cat([scaled, cond], -1))


class Sampler:
    def __init__(self, net: ScoreNet, schedule: Schedule, scale: float, skip: float, churn: float = 0.0):
        self.net, self.schedule = net, schedule
        self.scale, self.skip, self.churn = scale, skip, churn

    def coins(self, x: torch.Tensor) -> torch.Tensor:
        return torch.rand(x.shape[0], 1, device=x.device) >= self.skip

    def predict(self, x: torch.Tensor, sigma: float, cond: torch.Tensor) -> torch.Tensor:
        both = self.net(torch.cat([x, x]), sigma, torch.cat([cond, torch.zeros_like(cond)]))
        wanted, free = both.chunk(2)
        return torch.where(self.coins(x), free + self.scale * (wanted - free), wanted)

    @torch.no_grad()
    def sweep(self, x: torch.Tensor, cond: torch.Tensor) -> torch.Tensor:
        for here, following in self.schedule.pairs():
            if self.churn > 0:
                x = x + self.churn * here * torch.randn_like(x)
            slope = (x - self.predict(x, here, cond)) / here
            x = torch.add(x, slope, alpha=following - here)
        return x


def build(device):
    torch.manual_seed(4)
    net = ScoreNet(6, 32).to(device)
    sampler = Sampler(net, Schedule.geometric(10.0, 0.02, 7), scale=2.5, skip=0.3, churn=0.05)
    x = torch.randn(8, 6, device=device) * 10
    cond = torch.randn(8, 6, device=device)
    return sampler.sweep, (x, cond)
