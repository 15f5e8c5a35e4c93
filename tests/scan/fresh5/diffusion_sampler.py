"""Second-order multistep sampler around a small denoiser."""
from __future__ import annotations

import contextlib
import math

import torch
from torch import nn


def karras(n: int, lo: float = 0.02, hi: float = 10.0, rho: float = 7.0) -> list[float]:
    a, b = hi ** (1 / rho), lo ** (1 / rho)
    return [(a + i / (n - 1) * (b - a)) ** rho for i in range(n)] + [0.0]


class Denoiser(nn.Module):
    def __init__(self, dim: int, width: int = 64):
        super().__init__()
        self.time = nn.Linear(1, width)
        self.inp = nn.Linear(dim, width)
        self.out = nn.Linear(width, dim)

    def forward(self, x, log_sigma):
        h = torch.tanh(self.inp(x) + self.time(log_sigma.expand(x.shape[0], 1)))
        return self.out(h)


@contextlib.contextmanager
def repeatable(seed: int):
    """The same churn noise for every call, whatever ran before."""
    torch.manual_seed(seed)
    yield


class Multistep(nn.Module):
    def __init__(self, dim: int, steps: int, churn: float = 0.1, seed: int = 1234):
        super().__init__()
        self.net = Denoiser(dim)
        self.schedule = karras(steps)
        self.register_buffer("sigmas", torch.tensor(self.schedule))
        self.churn = churn
        self.seed = seed
        self.slope: torch.Tensor | None = None

    def scale_in(self, sigma: torch.Tensor) -> float:
        return 1.0 / math.sqrt(1.0 + sigma.square())

    def derivative(self, x, sigma):
        denoised = self.net(x * self.scale_in(sigma), sigma.log().view(1, 1))
        return (x - denoised) / sigma

    def combine(self, d: torch.Tensor) -> torch.Tensor:
        old, self.slope = self.slope, d
        return d if old is None else 1.5 * d - 0.5 * old

    @torch.no_grad()
    def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        sigma = self.sigmas[index.view(1)].squeeze(0)
        gap = self.schedule[index + 1] - self.schedule[index]
        with repeatable(self.seed):
            noise = torch.randn_like(x)
        x = x + self.churn * sigma * noise
        return x + gap * self.combine(self.derivative(x, sigma))


def build(device, batch: int = 4, dim: int = 16, steps: int = 12):
    sampler = Multistep(dim, steps).to(device).eval()
    x = torch.randn(batch, dim, device=device)
    index = torch.tensor(5, device=device)
    return sampler, (x, index)
