"""A driven mass-spring chain; the simulation time is a Python float."""
import math

import torch

import graphsafe


class Chain:
    def __init__(self, n, device, dt=0.01, k=40.0, damping=0.2):
        self.x = torch.zeros(n, device=device)
        self.v = torch.zeros(n, device=device)
        self.mass = torch.linspace(1.0, 2.0, n, device=device)
        self.dt, self.k, self.damping = dt, k, damping
        self.time = 0.0

    def force(self, load):
        left = torch.nn.functional.pad(self.x[:-1], (1, 0))
        right = torch.nn.functional.pad(self.x[1:], (0, 1))
        spring = self.k * (left - 2 * self.x + right)
        return spring - self.damping * self.v + load

    def step(self, load):
        drive = 3.0 * math.sin(2 * math.pi * 1.5 * self.time)
        acc = self.force(load * drive) / self.mass
        self.v.add_(acc, alpha=self.dt)
        self.x.add_(self.v, alpha=self.dt)
        self.time += self.dt
        return 0.5 * (self.mass * self.v**2).sum(), self.x.clone()

    def reset(self):
        self.x.zero_()
        self.v.zero_()


def build(device):
    torch.manual_seed(12)
    chain = Chain(32, device)
    load = torch.rand(32, device=device)
    return graphsafe.Step(
        chain.step, (load,), refresh=lambda a, kw, k: a[0].copy_(torch.rand(32)), reset=chain.reset
    )
