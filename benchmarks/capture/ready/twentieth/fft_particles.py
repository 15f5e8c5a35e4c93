"""Particle-mesh gravity step: deposit by index_add, Poisson solve by FFT, gather, leapfrog in place."""
import torch

import graphsafe


class ParticleMesh:
    def __init__(self, device, n=64, grid=16, dt=0.01):
        self.grid, self.dt = grid, dt
        self.pos = torch.rand(n, 2, device=device) * grid
        self.vel = torch.zeros(n, 2, device=device)
        self.mass = torch.ones(n, device=device)
        kx = torch.fft.fftfreq(grid, device=device)[:, None]
        ky = torch.fft.rfftfreq(grid, device=device)[None]
        k2 = (2 * torch.pi) ** 2 * (kx**2 + ky**2)
        k2[0, 0] = 1.0
        self.green = -1.0 / k2
        self.green[0, 0] = 0.0
        self.rho = torch.zeros(grid * grid, device=device)

    def corners(self):
        base = self.pos.floor()
        f = self.pos - base
        i = base.long()
        for dx in (0, 1):
            for dy in (0, 1):
                w = (f[:, 0] if dx else 1 - f[:, 0]) * (f[:, 1] if dy else 1 - f[:, 1])
                cell = (i[:, 0] + dx).remainder(self.grid) * self.grid + (i[:, 1] + dy).remainder(self.grid)
                yield cell, w

    def step(self, kick):
        self.rho.zero_()
        for cell, w in self.corners():
            self.rho.index_add_(0, cell, w * self.mass)
        rho = self.rho.view(self.grid, self.grid)
        phi = torch.fft.irfft2(torch.fft.rfft2(rho - rho.mean()) * self.green, s=rho.shape)
        gx = (torch.roll(phi, 1, 0) - torch.roll(phi, -1, 0)) / 2
        gy = (torch.roll(phi, 1, 1) - torch.roll(phi, -1, 1)) / 2
        g = torch.stack([gx.flatten(), gy.flatten()], -1)
        acc = torch.zeros_like(self.vel)
        for cell, w in self.corners():
            acc += w[:, None] * g[cell]
        self.vel.add_(acc * self.dt + kick * self.dt)
        self.pos.add_(self.vel, alpha=self.dt).remainder_(self.grid)
        return phi.abs().mean(), self.vel.square().sum()


def build(device):
    sim = ParticleMesh(device)
    kick = torch.zeros(64, 2, device=device)
    return graphsafe.Step(sim.step, (kick,), refresh=lambda a, kw, k: a[0].copy_(torch.randn(64, 2) * 0.1))
