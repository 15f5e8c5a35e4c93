"""Explicit heat conduction on a plate with a driven left wall."""
import math
from typing import NamedTuple

import torch


class Material(NamedTuple):
    diffusivity: float
    loss: float


class Wall:
    """Temperature profile imposed along one side."""

    def __init__(self, n, amplitude=1.0):
        self.profile = [amplitude * math.sin(math.pi * i / (n - 1)) for i in range(n)]

    def on(self, like):
        return torch.tensor(self.profile, device=like.device, dtype=like.dtype)


class Field:
    """Two copies of the temperature, one read and one written."""

    def __init__(self, n, device):
        self.now = torch.zeros(n, n, device=device)
        self.nxt = torch.zeros(n, n, device=device)

    def flip(self):
        self.now, self.nxt = self.nxt, self.now


class Plate:
    def __init__(self, n, material, device, dt=0.2):
        self.material = material
        self.dt = dt
        self.wall = Wall(n)
        self.field = Field(n, device)

    def _laplacian(self, u):
        return u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1]

    def _hot_cells(self, u, limit):
        rows = torch.nonzero(u > limit)
        return rows.shape[0]

    @torch.no_grad()
    def advance(self, source, gain):
        f = self.field
        f.now[:, 0] = self.wall.on(f.now) * gain
        inner = f.now[1:-1, 1:-1]
        rate = self.material.diffusivity * self._laplacian(f.now)
        rate = rate - self.material.loss * inner + source[1:-1, 1:-1]
        f.nxt.copy_(f.now)
        f.nxt[1:-1, 1:-1] = inner + self.dt * rate
        f.flip()
        share = self._hot_cells(f.now, 0.5) / f.now.numel()
        return f.now.mean() * (1.0 - share)


def build(device):
    torch.manual_seed(2)
    n = 48
    plate = Plate(n, Material(0.9, 0.02), device)
    source = 0.05 * torch.rand(n, n, device=device)
    gain = torch.ones(1, device=device)
    return plate.advance, (source, gain)
