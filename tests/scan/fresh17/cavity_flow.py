"""Lid-driven cavity on a collocated grid, projection method, float32."""
import math

import torch


def laplace(f):
    out = torch.zeros_like(f)
    out[1:-1, 1:-1] = f[2:, 1:-1] + f[:-2, 1:-1] + f[1:-1, 2:] + f[1:-1, :-2] - 4 * f[1:-1, 1:-1]
    return out


class Cavity:
    def __init__(self, n, device, nu=0.02, cfl=0.4):
        self.n, self.nu, self.cfl = n, nu, cfl
        self.h = 1.0 / (n - 1)
        self.clock = 0.0
        self.pressure = torch.zeros(n, n, device=device)
        line = 2.5 * torch.eye(n) - torch.diag(torch.ones(n - 1), 1) - torch.diag(torch.ones(n - 1), -1)
        self.filter = line.to(device)

    def project(self, u, v):
        div = (torch.roll(u, -1, 1) - u + torch.roll(v, -1, 0) - v) / self.h
        p = self.pressure
        res = div
        sweeps = 0
        while res.abs().amax() > 1e-3 and sweeps < 6:
            res = laplace(p) - div * self.h**2
            p = p + 0.24 * res
            sweeps += 1
        self.pressure.copy_(p)
        return u - (torch.roll(p, -1, 1) - p) / self.h, v - (torch.roll(p, -1, 0) - p) / self.h

    def step(self, u, v):
        peak = torch.maximum(u.abs().amax(), v.abs().amax()) + 1e-3
        dt = (self.cfl * self.h / peak).item()
        self.clock += dt
        u = u + dt * self.nu / self.h**2 * laplace(u)
        v = v + dt * self.nu / self.h**2 * laplace(v)
        u[-1] = math.tanh(4 * self.clock)
        u, v = self.project(u, v)
        smooth = torch.linalg.solve(self.filter, torch.cat((u, v), dim=1))
        return smooth.chunk(2, dim=1)


def build(device):
    torch.manual_seed(0)
    n = 16
    sim = Cavity(n, device)
    return sim.step, (torch.rand(n, n, device=device), torch.rand(n, n, device=device))
