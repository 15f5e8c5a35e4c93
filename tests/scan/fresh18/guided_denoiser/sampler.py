"""One sweep of a small conditional diffusion sampler with stochastic guidance."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass
class Guidance:
    scale: float = 2.5
    skip: float = 0.3
    seed: int = 0

    def __post_init__(self):
        self.rng = np.random.default_rng(self.seed)

    def active(self) -> bool:
        return self.rng.uniform() >= self.skip


class Denoiser(nn.Module):
    def __init__(self, dim: int, width: int):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(2 * dim + 1, width), nn.SiLU(), nn.Linear(width, dim))

    def forward(self, x: torch.Tensor, sigma: torch.Tensor, cond: torch.Tensor) -> torch.Tensor:
        level = sigma.log().expand(x.shape[0], 1)
        return self.inner(torch.cat([x, cond, level], -1))


class Sampler:
    def __init__(self, net: Denoiser, sigmas: torch.Tensor, guidance: Guidance):
        self.net = net
        self.sigmas = sigmas
        self.guidance = guidance

    def predict(self, x, sigma, cond):
        wanted = self.net(x, sigma, cond)
        if not self.guidance.active():
            return wanted
        free = self.net(x, sigma, torch.zeros_like(cond))
        return free + self.guidance.scale * (wanted - free)

    @torch.no_grad()
    def sweep(self, x: torch.Tensor, cond: torch.Tensor) -> torch.Tensor:
        for i in range(self.sigmas.shape[0] - 1):
            here, following = self.sigmas[i], self.sigmas[i + 1]
            slope = (x - self.predict(x, here, cond)) / here
            x = x + (following - here) * slope
        return x


def build(device):
    torch.manual_seed(4)
    sigmas = torch.logspace(1, -2, 7).to(device)
    sampler = Sampler(Denoiser(6, 32).to(device), sigmas, Guidance())
    x = torch.randn(8, 6, device=device) * 10
    cond = torch.randn(8, 6, device=device)
    return sampler.sweep, (x, cond)
