"""Flow-matching sampler with a schedule object."""
import math

import torch
from torch import nn


class Velocity(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.inp = nn.Linear(dim + 1, 32)
        self.out = nn.Linear(32, dim)

    def forward(self, x, t):
        t = torch.full_like(x[:, :1], t)
        return self.out(torch.nn.functional.silu(self.inp(torch.cat([x, t], -1))))


class Schedule:
    def __init__(self, steps, shift=3.0):
        base = [i / steps for i in range(steps + 1)]
        self.times = [shift * t / (1 + (shift - 1) * t) for t in base]
        self.index = 0

    @property
    def now(self):
        return self.times[self.index % (len(self.times) - 1)]

    @property
    def width(self):
        i = self.index % (len(self.times) - 1)
        return self.times[i + 1] - self.times[i]

    def move(self):
        self.index += 1


class Guidance:
    def __init__(self, scale):
        self.scale = scale

    def combine(self, cond, uncond):
        return uncond + self.scale * (cond - uncond)


class FlowSampler:
    def __init__(self, net, schedule, guidance):
        self.net, self.schedule, self.guidance = net, schedule, guidance

    @torch.inference_mode()
    def sample_step(self, x, cond):
        v = self.guidance.combine(self.net(x + cond, self.schedule.now), self.net(x, self.schedule.now))
        x = x + v * self.schedule.width
        self.schedule.move()
        return x * math.sqrt(0.99)


def build(device):
    sampler = FlowSampler(Velocity().to(device), Schedule(20), Guidance(2.0))
    return sampler.sample_step, (torch.randn(4, 16, device=device), torch.randn(4, 16, device=device))
