"""A shallow-water model with forcing and diagnostics."""
import math

import torch


class Clock:
    def __init__(self, dt):
        self.dt, self.t = dt, 0.0

    def tick(self):
        self.t += self.dt


class Tide:
    def __init__(self, clock, period=12.4):
        self.clock, self.omega = clock, 2 * math.pi / period

    def amplitude(self):
        return math.sin(self.omega * self.clock.t)


class Grid:
    def __init__(self, n, device):
        self.h = torch.ones(n, n, device=device)
        self.u = torch.zeros(n, n, device=device)
        self.v = torch.zeros(n, n, device=device)

    @staticmethod
    def dx(a):
        return 0.5 * (a.roll(-1, 0) - a.roll(1, 0))

    @staticmethod
    def dy(a):
        return 0.5 * (a.roll(-1, 1) - a.roll(1, 1))


class Diagnostics:
    def __init__(self):
        self.worst = 0.0

    def observe(self, grid):
        self.worst = max(self.worst, grid.h.abs().max())


class Ocean:
    def __init__(self, n, device, dt=0.05):
        self.clock = Clock(dt)
        self.tide = Tide(self.clock)
        self.grid = Grid(n, device)
        self.diagnostics = Diagnostics()

    def integrate(self, wind):
        g, dt = self.grid, self.clock.dt
        force = self.tide.amplitude()
        g.u.add_(-dt * g.dx(g.h) + dt * wind + 0.01 * dt * force)
        g.v.add_(-dt * g.dy(g.h))
        g.h.add_(-dt * (g.dx(g.u) + g.dy(g.v)))
        self.clock.tick()
        self.diagnostics.observe(g)
        return g.h.clone()


def build(device):
    return Ocean(12, device).integrate, (torch.randn(12, 12, device=device) * 0.1,)
