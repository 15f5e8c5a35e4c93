"""Smoothed-particle water tank on a shaking table."""
import math
from dataclasses import dataclass

import numpy as np
import torch


@dataclass
class Fluid:
    rest: float = 1.0
    stiffness: float = 4.0
    viscosity: float = 0.08
    radius: float = 0.25


class Recorder:
    """Keeps what the viewer shows."""

    def __init__(self):
        self.frames = []

    def note(self, pos):
        self.frames.append(pos.clone())


class Table:
    """Horizontal shaking of the tank."""

    def __init__(self, amplitude=2.0, period=0.8):
        self.amplitude = amplitude
        self.omega = 2 * math.pi / period
        self.time = 0.0

    def push(self, dt):
        self.time += dt
        return self.amplitude * math.sin(self.omega * self.time)


class Tank:
    def __init__(self, n, fluid, device, dt=0.01):
        self.fluid = fluid
        self.dt = dt
        self.table = Table()
        self.recorder = Recorder()
        self.pos = torch.rand(n, 2, device=device)
        self.vel = torch.zeros(n, 2, device=device)
        self.down = torch.tensor([[0.0, -9.8]], device=device)

    def _pairs(self):
        diff = self.pos[:, None, :] - self.pos[None, :, :]
        dist = diff.square().sum(dim=2).add(1e-6).sqrt()
        w = (1.0 - dist / self.fluid.radius).clamp(min=0)
        return diff / dist[..., None], w

    def _forces(self):
        unit, w = self._pairs()
        rho = w.square().sum(dim=1)
        p = self.fluid.stiffness * (rho - self.fluid.rest)
        press = ((p[:, None] + p[None, :]) * w)[..., None] * unit
        dv = self.vel[None, :, :] - self.vel[:, None, :]
        visc = self.fluid.viscosity * w[..., None] * dv
        return (press + visc).sum(dim=1) + self.down

    @torch.no_grad()
    def advance(self, wind):
        acc = self._forces() + wind
        acc[:, 0] += self.table.push(self.dt)
        shake = np.random.normal(scale=1e-3)
        self.vel.add_(acc * self.dt + shake)
        self.pos.add_(self.vel, alpha=self.dt)
        outside = (self.pos < 0) | (self.pos > 1)
        self.vel.copy_(torch.where(outside, -0.5 * self.vel, self.vel))
        self.pos.clamp_(0.0, 1.0)
        self.recorder.note(self.pos)
        speed = self.vel.norm(dim=1).max()
        print(f"fastest particle {speed:.3f}")
        return self.pos.mean(dim=0), speed


def build(device):
    torch.manual_seed(9)
    tank = Tank(96, Fluid(), device)
    wind = 0.1 * torch.randn(96, 2, device=device)
    return tank.advance, (wind,)
