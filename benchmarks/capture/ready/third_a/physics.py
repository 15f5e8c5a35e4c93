"""Time steppers and solvers."""
import heapq
import itertools
import math
import time

import numpy as np
import torch


class Oscillators:
    def __init__(self, n, device, dt=0.01, onset=1.0):
        self.dt, self.onset, self.t = dt, onset, 0.0
        self.x = torch.randn(n, device=device)
        self.v = torch.zeros(n, device=device)

    def step(self, stiffness, drive):
        force = -stiffness * self.x - 0.5 * self.v
        if self.t > self.onset:
            force = force + 4.0 * drive
        self.v.add_(force, alpha=self.dt)
        self.x.add_(self.v, alpha=self.dt)
        self.t += self.dt
        return self.x.clone(), self.v.clone()


def build_driven_oscillators(device):
    return Oscillators(32, device).step, (torch.rand(32, device=device) + 1.0, torch.rand(32, device=device))


class Heat:
    def __init__(self, n, sweeps, device):
        self.now = torch.randn(n, device=device)
        self.new = torch.zeros(n, device=device)
        self.sweeps = sweeps

    def step(self, source):
        for _ in range(self.sweeps):
            around = torch.roll(self.now, 1) + torch.roll(self.now, -1) - 2 * self.now
            torch.add(self.now, around, alpha=0.2, out=self.new)
            self.new.add_(source, alpha=0.1).mul_(0.98)
            self.now, self.new = self.new, self.now
        return self.now.clone()


def build_heat_three_sweeps(device):
    return Heat(48, 3, device).step, (torch.randn(48, device=device),)


def build_heat_four_sweeps(device):
    return Heat(48, 4, device).step, (torch.randn(48, device=device),)


class Arena:
    def __init__(self, n, device):
        self.pos = torch.randn(n, 2, device=device)
        self.vel = torch.randn(n, 2, device=device)
        self.frame = 0
        self.events = [(21, 0, "reverse", 40), (33, 1, "gather", 70)]
        heapq.heapify(self.events)

    def reverse(self):
        self.vel.neg_()

    def gather(self):
        self.vel.sub_(self.pos - self.pos.mean(0), alpha=0.3)

    def step(self, wind):
        while self.events and self.events[0][0] <= self.frame:
            at, order, name, again = heapq.heappop(self.events)
            getattr(self, name)()
            heapq.heappush(self.events, (at + again, order, name, again))
        self.vel.mul_(0.97).add_(wind, alpha=0.05)
        self.pos.add_(self.vel, alpha=0.1)
        self.frame += 1
        return self.pos.clone()


def build_event_arena(device):
    return Arena(16, device).step, (torch.randn(16, 2, device=device),)


class Conduction:
    """Implicit step of a conducting rod; the operator is assembled for the conductivities at hand."""

    def __init__(self, n, device):
        self.eye = torch.eye(n, device=device)
        self.operator, self.version = None, -1

    def assemble(self, kappa):
        lap = 2 * self.eye - self.eye.roll(1, 0) - self.eye.roll(-1, 0)
        return self.eye - 0.1 * kappa[:, None] * lap

    def step(self, u, kappa):
        if kappa._version != self.version:
            self.operator = self.assemble(kappa)
            self.version = kappa._version
        return self.operator @ (self.operator @ u)


def build_conduction(device):
    return Conduction(20, device).step, (torch.randn(20, device=device), torch.rand(20, device=device) + 0.2)


class Annealer:
    def __init__(self, n, device, seed=11):
        self.state = torch.randn(n, device=device)
        self.host = np.random.RandomState(seed)

    def step(self, field):
        self.state.lerp_(torch.tanh(field), 0.1)
        if self.host.random_sample() < 0.03:
            self.state.copy_(self.state.flip(0).neg())
        return self.state.clone()


def build_annealer(device):
    return Annealer(24, device).step, (torch.randn(24, device=device),)


class Sensor:
    recalibrate_every = 60.0

    def __init__(self, n, device):
        self.gain = torch.ones(n, device=device)
        self.power = torch.ones(n, device=device)
        self.due = time.monotonic() + self.recalibrate_every

    def read(self, raw):
        self.power.lerp_(raw.square(), 0.2)
        now = time.monotonic()
        if now >= self.due:
            self.gain.copy_(self.power.rsqrt())
            self.due = now + self.recalibrate_every
        return raw * self.gain


def build_sensor(device):
    return Sensor(10, device).read, (torch.randn(10, device=device) * 3,)


class Chebyshev:
    def __init__(self, n, device):
        self.matrix = torch.randn(n, n, device=device) / n
        self.ring = itertools.cycle([torch.empty(n, device=device) for _ in range(5)])

    def apply(self, x):
        older, old = x, torch.mv(self.matrix, x, out=next(self.ring))
        total = x + 0.5 * old
        for k in range(2, 5):
            fresh = torch.mv(self.matrix, old, out=next(self.ring)).mul_(2.0).sub_(older)
            total = total + fresh / k
            older, old = old, fresh
        return total, old.norm()


def build_chebyshev_filter(device):
    return Chebyshev(30, device).apply, (torch.randn(30, device=device),)


def build_rotating_frame(device):
    turns = itertools.count(1)
    spin = torch.randn(2, 2, device=device)

    def step(p):
        angle = 2.0 * math.pi * next(turns)
        c, s = math.cos(angle), math.sin(angle)
        x, y = p.unbind(-1)
        return torch.stack([c * x - s * y, s * x + c * y], -1) @ spin

    return step, (torch.randn(9, 2, device=device),)


def build_langevin(device):
    pos = torch.randn(64, 3, device=device)
    rng = torch.cuda.default_generators[device.index or 0] if device.type == "cuda" else torch.default_generator

    def step(centre):
        noise = torch.randn(pos.shape, device=device, generator=rng)
        pos.add_(centre - pos, alpha=0.05).add_(noise, alpha=math.sqrt(0.1))
        return pos.clone()

    return step, (torch.randn(64, 3, device=device),)
