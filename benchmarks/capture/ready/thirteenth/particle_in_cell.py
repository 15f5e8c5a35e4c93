"""Electrostatic particle-in-cell: charge is deposited with atomics (in double), the field comes from FFTs, leapfrog in place."""
import math

import torch

import graphsafe

PARTICLES, CELLS, LENGTH = 4000, 64, 4 * math.pi


class Plasma:
    def __init__(self, device):
        generator = torch.Generator().manual_seed(1)
        x = torch.rand(PARTICLES, generator=generator, dtype=torch.float64) * LENGTH
        v = torch.randn(PARTICLES, generator=generator, dtype=torch.float64)
        self.x = (x + 0.02 * torch.cos(0.5 * x)).remainder(LENGTH).to(device)
        self.v = v.to(device)
        modes = torch.arange(CELLS // 2 + 1, device=device, dtype=torch.float64) * (2 * math.pi / LENGTH)
        self.green = torch.where(modes > 0, 1.0 / modes.clamp(min=1e-9), 0.0)
        self.drive = torch.zeros((), device=device, dtype=torch.float64)
        self.energy = torch.zeros(64, device=device, dtype=torch.float64)

    def deposit(self, cell, share):
        density = torch.zeros(CELLS, device=self.x.device, dtype=torch.float64)
        density.index_add_(0, cell, 1 - share)
        density.index_add_(0, (cell + 1).remainder(CELLS), share)
        return density * (CELLS / PARTICLES)

    def step(self):
        place = self.x * (CELLS / LENGTH)
        cell = place.floor()
        share = place - cell
        cell = cell.long().remainder(CELLS)
        rho = 1.0 - self.deposit(cell, share)
        spectrum = torch.fft.rfft(rho) * self.green
        field = torch.fft.irfft(spectrum * -1j, n=CELLS)
        here = field[cell] * (1 - share) + field[(cell + 1).remainder(CELLS)] * share
        self.v.sub_((here + self.drive) * 0.05)
        self.x.add_(self.v, alpha=0.05).remainder_(LENGTH)
        self.energy.copy_(self.energy.roll(-1))
        self.energy[-1:].copy_(field.square().sum().view(1))
        return field, self.energy


def build(device):
    plasma = Plasma(device)

    def refresh(args, kwargs, k):
        plasma.drive.copy_(0.1 * torch.randn((), dtype=torch.float64))

    return graphsafe.Step(plasma.step, (), {}, refresh=refresh)
