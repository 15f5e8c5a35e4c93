"""Checkerboard Metropolis for many replicas of the two-dimensional Ising model."""
import argparse
from typing import NamedTuple

import torch


class Observables(NamedTuple):
    energy: torch.Tensor
    magnetisation: torch.Tensor
    acceptance: torch.Tensor


class Lattice:
    def __init__(self, replicas: int, size: int, device: torch.device):
        if size % 2:
            raise ValueError("a checkerboard needs an even size")
        self.size = size
        self.spins = torch.ones(replicas, size, size, device=device)
        index = torch.arange(size, device=device)
        parity = (index[:, None] + index[None, :]) % 2
        self.colours = [(parity == c).float() for c in (0, 1)]

    def neighbours(self) -> torch.Tensor:
        s = self.spins
        return s.roll(1, 1) + s.roll(-1, 1) + s.roll(1, 2) + s.roll(-1, 2)


class Tempering:
    """Inverse temperatures, one a replica; neighbouring replicas exchange them."""

    def __init__(self, low: float, high: float, replicas: int, device):
        self.beta = torch.linspace(low, high, replicas, device=device)
        self.even = torch.zeros((), dtype=torch.bool, device=device)
        self.left = torch.arange(0, replicas - 1, device=device)
        self.right = self.left + 1

    def exchange(self, energy: torch.Tensor) -> None:
        gap = (self.beta[self.right] - self.beta[self.left]) * (energy[self.right] - energy[self.left])
        wanted = torch.rand(gap.shape, device=gap.device).log() < gap
        active = (self.left % 2 == 0) == self.even
        swap = wanted & active
        low = torch.where(swap, self.beta[self.right], self.beta[self.left])
        high = torch.where(swap, self.beta[self.left], self.beta[self.right])
        updated = self.beta.clone()
        keep_left = torch.where(active, low, updated[self.left])
        updated.index_copy_(0, self.left, keep_left)
        updated.index_copy_(0, self.right, torch.where(active, high, updated[self.right]))
        self.beta.copy_(updated)
        self.even.logical_not_()


class Sampler:
    def __init__(self, lattice: Lattice, tempering: Tempering, sweeps: int):
        self.lattice = lattice
        self.tempering = tempering
        self.sweeps = sweeps
        self.count = torch.zeros((), dtype=torch.int64, device=lattice.spins.device)
        self.mean_energy = torch.zeros(lattice.spins.shape[0], device=lattice.spins.device)

    def half_sweep(self, colour: torch.Tensor, field: torch.Tensor) -> torch.Tensor:
        spins = self.lattice.spins
        cost = 2.0 * spins * (self.lattice.neighbours() + field)
        chance = torch.exp(-self.tempering.beta.view(-1, 1, 1) * cost)
        flip = (torch.rand_like(spins) < chance).float() * colour
        spins.mul_(1.0 - 2.0 * flip)
        return flip.mean()

    def energy(self, field: torch.Tensor) -> torch.Tensor:
        spins = self.lattice.spins
        bonds = spins * (spins.roll(1, 1) + spins.roll(1, 2))
        return -(bonds + field * spins).sum(dim=(1, 2))

    @torch.no_grad()
    def step(self, field: torch.Tensor) -> Observables:
        accepted = torch.zeros((), device=field.device)
        for _ in range(self.sweeps):
            for colour in self.lattice.colours:
                accepted = accepted + self.half_sweep(colour, field)
        energy = self.energy(field)
        self.tempering.exchange(energy)
        self.count.add_(1)
        self.mean_energy.add_((energy - self.mean_energy) / self.count)
        magnetisation = self.lattice.spins.mean(dim=(1, 2)).abs()
        return Observables(energy, magnetisation, accepted / (2 * self.sweeps))


def make(device, replicas: int = 6, size: int = 16, sweeps: int = 2) -> Sampler:
    lattice = Lattice(replicas, size, device)
    return Sampler(lattice, Tempering(0.3, 0.6, replicas, device), sweeps)


def build(device):
    sampler = make(torch.device(device))
    field = torch.full((16, 16), 0.02, device=device)
    field[:8].neg_()
    return sampler.step, (field,)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    sampler = make(torch.device("cpu"))
    nothing = torch.zeros(16, 16)
    for _ in range(options.steps):
        last = sampler.step(nothing)
    print("energy per replica", sampler.mean_energy.tolist(), "accepted", float(last.acceptance))
