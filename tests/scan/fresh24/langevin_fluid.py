"""BAOAB Langevin dynamics of a Lennard-Jones fluid under an oscillating shear field."""
import math
from dataclasses import dataclass

import torch


@dataclass
class FluidConfig:
    particles: int = 64
    length: float = 6.0
    cutoff: float = 2.5
    skin: float = 0.4
    neighbors: int = 24
    dt: float = 2e-3
    friction: float = 1.0
    temperature: float = 0.8
    omega: float = 40.0


class Box:
    def __init__(self, length):
        self.length = length

    def wrap(self, d):
        return d - self.length * torch.round(d / self.length)


class VerletTable:
    """Fixed-capacity neighbor table, rebuilt when a particle has moved half a skin."""

    def __init__(self, cfg, box, device):
        self.cfg, self.box = cfg, box
        n = cfg.particles
        self.index = torch.zeros(n, cfg.neighbors, dtype=torch.int64, device=device)
        self.origin = torch.full((n, 3), 1e3, device=device)

    def moved(self, x):
        return self.box.wrap(x - self.origin).norm(dim=-1).max()

    def rebuild(self, x):
        d = self.box.wrap(x[:, None] - x[None, :]).norm(dim=-1)
        d.diagonal().fill_(math.inf)
        self.index.copy_(d.topk(self.cfg.neighbors, largest=False).indices)
        self.origin.copy_(x)

    def pairs(self, x):
        d = self.box.wrap(x[:, None] - x[self.index])
        return d, d.square().sum(-1).clamp_min(0.5)


class Fluid:
    def __init__(self, cfg, device, seed=7):
        self.cfg, self.device = cfg, device
        self.box = Box(cfg.length)
        self.table = VerletTable(cfg, self.box, device)
        side = round(cfg.particles ** (1 / 3))
        axis = torch.arange(side, device=device) * (cfg.length / side)
        self.x = torch.cartesian_prod(axis, axis, axis).contiguous()
        self.v = torch.zeros_like(self.x)
        self.noise = torch.Generator(device).manual_seed(seed)
        self.time = 0.0
        self.damp = math.exp(-cfg.friction * cfg.dt)
        self.kick = math.sqrt((1 - self.damp ** 2) * cfg.temperature)
        self.field = torch.zeros(3, device=device)

    def forces(self):
        d, r2 = self.table.pairs(self.x)
        inside = r2 < self.cfg.cutoff ** 2
        s6 = r2.reciprocal().pow(3)
        pair = torch.where(inside, 24 * (2 * s6 * s6 - s6) / r2, 0.0)
        energy = torch.where(inside, 4 * (s6 * s6 - s6), 0.0).sum() / 2
        return (pair.unsqueeze(-1) * d).sum(1), energy

    def drive(self):
        return self.field * math.cos(self.cfg.omega * self.time)

    def half_kick(self, f):
        self.v.add_(f + self.drive(), alpha=0.5 * self.cfg.dt)

    def thermostat(self):
        xi = torch.randn(self.x.shape, device=self.device, generator=self.noise)
        self.v = self.damp * self.v + self.kick * xi

    def drift(self):
        self.x.add_(self.v, alpha=0.5 * self.cfg.dt)


class Integrator:
    def __init__(self, fluid):
        self.fluid = fluid

    def __call__(self, field):
        fluid = self.fluid
        fluid.field.copy_(field)
        if fluid.table.moved(fluid.x) > 0.5 * fluid.cfg.skin:
            fluid.table.rebuild(fluid.x)
        f, _ = fluid.forces()
        fluid.half_kick(f)
        fluid.drift()
        fluid.thermostat()
        fluid.drift()
        f, energy = fluid.forces()
        fluid.half_kick(f)
        fluid.time += fluid.cfg.dt
        kinetic = 0.5 * fluid.v.square().sum()
        return torch.stack([energy, kinetic])


def build(device):
    fluid = Fluid(FluidConfig(), device)
    field = torch.tensor([0.5, 0.0, 0.1], device=device)
    return Integrator(fluid), (field,)
