"""Annealed Langevin: the temperature is a schedule object that takes part in tensor arithmetic by
__torch_function__."""

import math

import torch

import graphsafe


class Schedule:
    def __init__(self, start, end, steps):
        self.start, self.end, self.steps, self.now = start, end, steps, 0

    def tick(self):
        self.now += 1

    @property
    def value(self):
        if self.now < 100:  # burn-in at the start temperature
            return self.start
        share = min((self.now - 100) / self.steps, 1.0)
        return self.end + 0.5 * (self.start - self.end) * (1 + math.cos(math.pi * share))

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        plain = [a.value if isinstance(a, Schedule) else a for a in args]
        return func(*plain, **(kwargs or {}))


def build(device):
    x = torch.zeros(32, device=device)
    temperature = Schedule(1.0, 0.1, 50)

    def step(drift):
        noise = torch.mul(torch.randn_like(x), temperature)
        x.mul_(0.9).add_(drift, alpha=0.1).add_(noise, alpha=0.3)
        return x.clone()

    def refresh(args, kwargs, k):
        temperature.tick()
        args[0].copy_(torch.randn(32))

    return graphsafe.Step(step, (torch.randn(32, device=device),), refresh=refresh)
