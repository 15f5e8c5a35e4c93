"""Time steppers and controllers."""
import collections

import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from graphsafe import Step


def _refresh(args, kwargs, k):
    args[0].normal_()


class Wave:
    def __init__(self, n, device):
        self.levels = collections.deque(torch.zeros(n, device=device) for _ in range(3))
        self.c = 0.2

    def advance(self, force):
        older, now, new = self.levels
        lap = now.roll(1) - 2 * now + now.roll(-1)
        new.copy_(2 * now - older + self.c * lap + 0.01 * force)
        new.mul_(0.98)
        self.levels.rotate(-1)
        return new.square().mean()


def build_wave(device):
    return Step(Wave(32, device).advance, (torch.randn(32, device=device),), refresh=_refresh)


class Particles:
    def __init__(self, n, device):
        self.pos = torch.rand(n, 3, device=device)
        self.vel = torch.zeros(n, 3, device=device)
        self.anchor = torch.empty_like(self.pos)
        self.kick = torch.zeros(n, 3, device=device)
        self.driver = self._drive()

    def _drive(self):
        while True:
            self.anchor.copy_(self.pos)
            for _ in range(24):
                self.vel.mul_(0.95).add_(self.anchor - self.pos, alpha=0.1).add_(self.kick, alpha=0.01)
                self.pos.add_(self.vel, alpha=0.1)
                yield self.pos - self.anchor

    def step(self, kick):
        self.kick.copy_(kick)
        return next(self.driver)


def build_particles(device):
    return Step(Particles(20, device).step, (torch.randn(20, 3, device=device),), refresh=_refresh)


class Evolution:
    def __init__(self, policy, sigma):
        self.policy, self.sigma = policy, sigma
        self.centre = parameters_to_vector(policy.parameters()).detach().clone()
        self.round = 0

    def ask(self):
        self.round += 1
        sign = 1.0 if self.round % 2 else -1.0
        vector_to_parameters(self.centre + sign * self.sigma * self.centre.abs().sqrt(), self.policy.parameters())


def build_evolution(device):
    policy = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2)).to(device).requires_grad_(False)
    search = Evolution(policy, 0.3)
    return Step(policy, (torch.randn(10, 6, device=device),), refresh=_refresh, events={"ask": search.ask})


class Diffusion:
    def __init__(self, n, device, inner=4):
        self.front = torch.rand(n, n, device=device)
        self.back = torch.zeros(n, n, device=device)
        self.inner = inner

    def step(self, source):
        for _ in range(self.inner):
            f = self.front
            torch.add(f.roll(1, 0) + f.roll(-1, 0), f.roll(1, 1) + f.roll(-1, 1), out=self.back)
            self.back.mul_(0.24).add_(source, alpha=0.01)
            self.front, self.back = self.back, self.front
        return self.front.mean(0)


def build_diffusion(device):
    return Step(Diffusion(12, device).step, (torch.randn(12, 12, device=device),), refresh=_refresh)


class Filter:
    def __init__(self, n, device):
        self.mean = torch.zeros(n, 4, device=device)
        self.power = torch.ones(n, 4, device=device)

    def __call__(self, x):
        x.clamp_(-2, 2)
        self.mean = self.mean.mul_(0.9).add_(x, alpha=0.1)
        self.power *= 0.95
        self.power += (x - self.mean).square()
        return self.mean, self.mean[0], self.power.T, x


def build_filter(device):
    return Step(Filter(6, device), (torch.randn(6, 4, device=device),), refresh=_refresh)


class Part:
    def __init__(self, start, *shape):
        self.start, self.shape = start, shape

    def __get__(self, owner, kind=None):
        size = 1
        for n in self.shape:
            size *= n
        return owner.flat[self.start : self.start + size].view(self.shape)


class Controller:
    first = Part(0, 6, 8)
    second = Part(48, 8, 2)

    def __init__(self, device):
        self.flat = torch.randn(64, device=device)
        self.stock = [torch.randn(64, device=device) for _ in range(3)]

    def act(self, obs):
        return (obs @ self.first).tanh() @ self.second

    def load(self):
        self.stock.append(self.stock.pop(0))
        self.flat.copy_(self.stock[0])


def build_controller(device):
    control = Controller(device)
    return Step(control.act, (torch.randn(5, 6, device=device),), refresh=_refresh, events={"load": control.load})
