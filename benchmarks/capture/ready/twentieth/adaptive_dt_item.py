"""Explicit fluid step with an adaptive time step from the CFL condition, read on the host."""
import torch

import graphsafe


class Burgers:
    def __init__(self, n, device, dx=1.0 / 32, nu=0.01, cfl=0.4):
        self.u = torch.randn(n, n, device=device) * 0.1
        self.v = torch.randn(n, n, device=device) * 0.1
        self.dx, self.nu, self.cfl = dx, nu, cfl

    def grad(self, f):
        fx = (torch.roll(f, -1, 0) - torch.roll(f, 1, 0)) / (2 * self.dx)
        fy = (torch.roll(f, -1, 1) - torch.roll(f, 1, 1)) / (2 * self.dx)
        return fx, fy

    def lap(self, f):
        s = torch.roll(f, 1, 0) + torch.roll(f, -1, 0) + torch.roll(f, 1, 1) + torch.roll(f, -1, 1)
        return (s - 4 * f) / self.dx**2

    def step(self, force):
        speed = torch.maximum(self.u.abs().max(), self.v.abs().max())
        dt = min(self.cfl * self.dx / (speed.item() + 1e-6), 0.01)
        ux, uy = self.grad(self.u)
        vx, vy = self.grad(self.v)
        du = -self.u * ux - self.v * uy + self.nu * self.lap(self.u) + force[0]
        dv = -self.u * vx - self.v * vy + self.nu * self.lap(self.v) + force[1]
        self.u.add_(du, alpha=dt)
        self.v.add_(dv, alpha=dt)
        return self.u, self.v


def build(device, n=24):
    sim = Burgers(n, device)
    force = torch.zeros(2, n, n, device=device)
    return graphsafe.Step(sim.step, (force,), refresh=lambda a, kw, k: a[0].copy_(torch.randn(2, n, n) * 0.1))
