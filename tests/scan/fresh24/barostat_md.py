"""Lennard-Jones fluid with a Langevin thermostat and a slow barostat; the inner steps are captured."""
import argparse
from dataclasses import dataclass

import torch


@dataclass
class Conditions:
    particles: int = 48
    box: float = 8.0
    dt: float = 0.004
    friction: float = 1.0
    temperature: float = 1.2
    pressure: float = 0.5
    inner: int = 4


class Scratch:
    """Work space shared by the force field and the analysis."""

    def __init__(self, device):
        self.device = device
        self.space = torch.empty(0, device=device)

    def take(self, *shape):
        need = 1
        for s in shape:
            need *= s
        if self.space.numel() < need:
            self.space = torch.empty(need, device=self.device)
        return self.space[:need].view(*shape)


class LennardJones:
    def __init__(self, scratch, count, device):
        self.scratch = scratch
        self.away = torch.eye(count, device=device) * 1e6
        self.virial = torch.zeros((), device=device)

    def __call__(self, pos, box):
        n = pos.shape[0]
        delta = self.scratch.take(n, n, 3)
        torch.sub(pos[:, None], pos[None], out=delta)
        delta.sub_(torch.round(delta / box) * box)
        r2 = delta.square().sum(-1) + self.away
        inv6 = r2.clamp_min(0.6).pow(-3)
        coef = (48 * inv6 * inv6 - 24 * inv6) / r2
        self.virial.copy_((coef * r2).sum() / 2)
        return (coef.unsqueeze(-1) * delta).sum(1)


class Thermostat:
    """Langevin thermostat whose set point can be ramped during a run."""

    def __init__(self, cond):
        self.target = torch.tensor(cond.temperature)
        self.friction, self.dt = cond.friction, cond.dt

    def kick(self, vel):
        c = 1.0 - self.friction * self.dt
        noise = torch.randn_like(vel)
        vel.mul_(c).add_(noise * (2 * self.friction * self.dt * self.target).sqrt())

    def ramp(self, value):
        self.target.fill_(value)


class RadialHistogram:
    def __init__(self, scratch, bins, device):
        self.scratch, self.bins = scratch, bins
        self.counts = torch.zeros(bins, device=device)

    def sample(self, pos, images):
        shifted = torch.cat([pos + s for s in images])
        gap = self.scratch.take(pos.shape[0], shifted.shape[0], 3)
        torch.sub(pos[:, None], shifted[None], out=gap)
        slot = (gap.norm(dim=-1) * 4).long().clamp(0, self.bins - 1).view(-1)
        self.counts.scatter_add_(0, slot, torch.ones_like(slot, dtype=self.counts.dtype))


class Simulation:
    def __init__(self, cond, device):
        torch.manual_seed(13)
        self.cond = cond
        self.pos = torch.rand(cond.particles, 3, device=device) * cond.box
        self.vel = torch.randn(cond.particles, 3, device=device)
        self.box = torch.full((), cond.box, device=device)
        self.scratch = Scratch(device)
        self.force = LennardJones(self.scratch, cond.particles, device)
        self.thermostat = Thermostat(cond)
        self.rdf = RadialHistogram(self.scratch, 40, device)
        self.images = [torch.tensor(v, device=device) for v in ((0.0, 0.0, 0.0), (cond.box, 0.0, 0.0))]
        self.kinetic = torch.zeros((), device=device)
        self.stream = torch.cuda.Stream(device)
        self.graph = torch.cuda.CUDAGraph()

    def inner(self):
        for _ in range(self.cond.inner):
            self.vel.add_(self.force(self.pos, self.box).clamp(-50, 50), alpha=self.cond.dt)
            self.thermostat.kick(self.vel)
            self.pos.add_(self.vel, alpha=self.cond.dt).remainder_(self.box)
        self.kinetic.copy_(self.vel.square().sum() / 2)

    def capture(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.inner()
            self.inner()
        torch.cuda.current_stream().wait_stream(self.stream)
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.inner()

    def rescale(self):
        volume = self.box ** 3
        pressure = (2 * self.kinetic + self.force.virial) / (3 * volume)
        mu = (1 + 0.01 * (pressure - self.cond.pressure)).clamp(0.98, 1.02)
        self.pos = self.pos * mu
        self.box.mul_(mu)

    def run(self, blocks, final):
        kinetic = []
        start = self.cond.temperature
        for b in range(blocks):
            self.thermostat.ramp(start + (final - start) * b / blocks)
            self.graph.replay()
            kinetic.append(self.kinetic.item() / self.cond.particles)
            if b % 5 == 4:
                self.rescale()
                self.rdf.sample(self.pos, self.images)
        return kinetic


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=15)
    parser.add_argument("--final", type=float, default=0.6)
    args = parser.parse_args()
    sim = Simulation(Conditions(), torch.device("cuda"))
    sim.capture()
    energies = sim.run(args.blocks, args.final)
    print("kinetic energy per particle:", [round(e, 3) for e in energies])


if __name__ == "__main__":
    main()
