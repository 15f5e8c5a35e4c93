"""Implicit heat step solved with a fixed number of conjugate gradient rounds."""
from dataclasses import dataclass

import torch


@dataclass
class Plate:
    temperature: torch.Tensor
    conductivity: float
    dt: float


def laplacian(u):
    padded = torch.nn.functional.pad(u[None, None], (1, 1, 1, 1), mode="replicate")[0, 0]
    return padded[2:, 1:-1] + padded[:-2, 1:-1] + padded[1:-1, 2:] + padded[1:-1, :-2] - 4 * u


class ImplicitStep:
    def __init__(self, plate: Plate, rounds: int = 8):
        self.plate = plate
        self.rounds = rounds

    def apply(self, u):
        return u - self.plate.dt * self.plate.conductivity * laplacian(u)

    def solve(self, b):
        x = b
        r = b - self.apply(x)
        p = r
        energy = (r * r).sum()
        for _ in range(self.rounds):
            q = self.apply(p)
            alpha = energy / (p * q).sum().clamp_min(1e-12)
            x = x + alpha * p
            r = r - alpha * q
            renewed = (r * r).sum()
            p = r + (renewed / energy.clamp_min(1e-12)) * p
            energy = renewed
        return x

    def __call__(self, source):
        b = self.plate.temperature + self.plate.dt * source
        self.plate.temperature.copy_(self.solve(b))
        hottest = self.plate.temperature.max()
        return self.plate.temperature, hottest


def build(device):
    torch.manual_seed(3)
    plate = Plate(torch.rand(12, 12, device=device), conductivity=0.6, dt=0.1)
    return ImplicitStep(plate), (torch.rand(12, 12, device=device),)
