import torch

from .bodies import Bodies
from .gravity import Gravity


class Leapfrog:
    def __init__(self, bodies, field, substeps=3, eta=0.02, dt_max=0.01):
        self.bodies, self.field = bodies, field
        self.substeps, self.eta, self.dt_max = substeps, eta, dt_max
        self.acc = torch.zeros_like(bodies.pos)
        self.spare = torch.zeros_like(bodies.pos)

    def choose_dt(self):
        peak = self.acc.square().sum(-1).max().sqrt()
        return (self.eta / (peak + 1e-6)).clamp(max=self.dt_max)

    def substep(self, push):
        b = self.bodies
        dt = self.choose_dt()
        now, nxt = self.acc, self.spare
        b.vel.add_(now * (0.5 * dt))
        b.pos.add_(b.vel * dt)
        nxt.copy_(self.field.acceleration(b.pos, b.mass)).add_(push)
        now, nxt = nxt, now
        b.vel.add_(now * (0.5 * dt))
        self.acc.copy_(now)
        b.time.add_(dt)
        return dt

    @torch.no_grad()
    def __call__(self, push, wall):
        b = self.bodies
        for k in range(self.substeps):
            dt = self.substep(push if k == 0 else push * 0.5)
        outside = b.pos.abs() > wall
        b.vel[outside] = 0.0
        b.pos.copy_(torch.minimum(torch.maximum(b.pos, -wall), wall))
        kinetic = 0.5 * (b.mass * b.vel.square().sum(-1)).sum()
        energy = kinetic + self.field.potential(b.pos, b.mass)
        b.log([energy, kinetic, dt, outside.sum().float()])
        return b.pos.clone(), energy


def build(device):
    bodies = Bodies(16, device)
    sim = Leapfrog(bodies, Gravity())
    push = torch.zeros(16, 3, device=device).normal_(0, 0.05)
    wall = torch.full((3,), 2.0, device=device)
    return sim, (push, wall)
