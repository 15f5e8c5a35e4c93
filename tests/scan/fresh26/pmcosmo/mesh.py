"""Particle-mesh operations on a periodic cube: mass assignment, force solve, interpolation."""
import itertools

import torch


class Mesh:
    def __init__(self, side, device):
        self.side = side
        self.cells = side ** 3
        k = 2.0 * torch.pi * torch.fft.fftfreq(side, d=1.0 / side, device=device)
        kz = 2.0 * torch.pi * torch.fft.rfftfreq(side, d=1.0 / side, device=device)
        kx, ky, kz = torch.meshgrid(k, k, kz, indexing="ij")
        self.k = torch.stack((kx, ky, kz))
        k2 = self.k.square().sum(0)
        self.k2 = k2
        self.inverse = torch.where(k2 > 0, 1.0 / k2.clamp_min(1e-6), torch.zeros_like(k2))
        self.corners = [torch.tensor(c, device=device) for c in itertools.product((0, 1), repeat=3)]
        self.strides = torch.tensor([side * side, side, 1], device=device)

    def _stencil(self, pos):
        scaled = pos * self.side
        base = scaled.floor()
        frac = scaled - base
        for corner in self.corners:
            index = ((base.long() + corner) % self.side * self.strides).sum(-1)
            weight = (corner * frac + (1 - corner) * (1 - frac)).prod(-1)
            yield index, weight

    def deposit(self, pos):
        rho = pos.new_zeros(self.cells)
        for index, weight in self._stencil(pos):
            rho.index_add_(0, index, weight)
        return (rho * (self.cells / pos.shape[0]) - 1.0).view(self.side, self.side, self.side)

    def acceleration(self, delta, softening):
        modes = torch.fft.rfftn(delta)
        potential = -modes * self.inverse * torch.exp(-0.5 * softening ** 2 * self.k2)
        return [-torch.fft.irfftn(1j * k * potential, s=delta.shape) for k in self.k]

    def gather(self, fields, pos):
        out = torch.zeros_like(pos)
        stencil = list(self._stencil(pos))
        for axis, mesh in enumerate(fields):
            flat = mesh.reshape(-1)
            for index, weight in stencil:
                out[:, axis].add_(weight * flat.index_select(0, index))
        return out
