"""Replica-exchange Monte Carlo for the q-state Potts model on a periodic square lattice."""
from __future__ import annotations

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class LatticeSpec:
    replicas: int = 6
    side: int = 16
    states: int = 3
    beta_min: float = 0.6
    beta_max: float = 1.4


class Checkerboard:
    def __init__(self, side, device):
        ij = torch.arange(side, device=device)
        self.even = ((ij[:, None] + ij[None, :]) % 2 == 0)
        self.odd = ~self.even


class Ladder:
    """Inverse temperatures of the replicas; shifted slowly while the run anneals."""

    def __init__(self, spec: LatticeSpec, device):
        self.betas = torch.linspace(spec.beta_min, spec.beta_max, spec.replicas, device=device)
        self.sweeps = 0

    def ramp(self):
        self.sweeps += 1
        return 1.0 - math.exp(-self.sweeps / 40.0)


class PottsSampler:
    def __init__(self, spec: LatticeSpec, device):
        self.spec = spec
        self.board = Checkerboard(spec.side, device)
        self.ladder = Ladder(spec, device)
        shape = (spec.replicas, spec.side, spec.side)
        base = torch.arange(math.prod(shape), device=device).reshape(shape)
        self.spins = (base * 7 // 3) % spec.states
        self.energy_trace = torch.zeros(spec.replicas, device=device)
        self.reference = None

    def _aligned(self, spins, other):
        total = torch.zeros_like(spins)
        for dim, shift in ((1, 1), (1, -1), (2, 1), (2, -1)):
            total = total + (torch.roll(other, shift, dim) == spins)
        return total

    def _half_sweep(self, mask, proposal, log_u, beta):
        gain = self._aligned(proposal, self.spins) - self._aligned(self.spins, self.spins)
        accept = (log_u < beta[:, None, None] * gain) & mask
        self.spins = torch.where(accept, proposal, self.spins)

    def _baseline(self, field):
        if self.reference is None:
            self.reference = field.mean(dim=(1, 2), keepdim=True).clone()
        return field - self.reference

    def sweep(self, field, log_u):
        """One full sweep. `field` drives the proposals, `log_u` holds log-uniform variates."""
        beta = self.ladder.betas * self.ladder.ramp()
        centred = self._baseline(field)
        proposal = (self.spins + 1 + (centred > 0).long()) % self.spec.states
        self._half_sweep(self.board.even, proposal, log_u[0], beta)
        self._half_sweep(self.board.odd, proposal, log_u[1], beta)
        bonds = self._aligned(self.spins, self.spins).sum(dim=(1, 2)) / 2
        self.energy_trace.mul_(0.9).add_(bonds, alpha=-0.1)
        return self.energy_trace / self.spec.side ** 2


def build(device):
    torch.manual_seed(11)
    spec = LatticeSpec()
    sampler = PottsSampler(spec, device)
    field = torch.randn(spec.replicas, spec.side, spec.side, device=device)
    log_u = torch.rand(2, spec.replicas, spec.side, spec.side, device=device).clamp_min(1e-6).log()
    return sampler.sweep, (field, log_u)
