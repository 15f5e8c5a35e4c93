"""Flow-matching sampler whose schedule lives on the device."""
import torch
from torch import nn


class Velocity(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.inp = nn.Linear(dim + 1, 32)
        self.out = nn.Linear(32, dim)

    def forward(self, x, t):
        return self.out(torch.nn.functional.silu(self.inp(torch.cat([x, t.expand(x.shape[0], 1)], -1))))


class Schedule:
    def __init__(self, steps, device, shift=3.0):
        base = [i / steps for i in range(steps + 1)]
        self.times = torch.tensor([shift * t / (1 + (shift - 1) * t) for t in base], device=device)
        self.index = torch.zeros(1, dtype=torch.long, device=device)
        self.steps = steps

    @property
    def now(self):
        return self.times.index_select(0, self.index)

    @property
    def width(self):
        return self.times.index_select(0, self.index + 1) - self.now

    def move(self):
        self.index.add_(1).remainder_(self.steps)


class Guidance:
    def __init__(self, scale):
        self.scale = scale

    def combine(self, cond, uncond):
        return uncond + self.scale * (cond - uncond) if self.scale != 1.0 else cond


class FlowSampler:
    def __init__(self, net, schedule, guidance):
        self.net, self.schedule, self.guidance = net, schedule, guidance
        self.taken = 0

    @torch.inference_mode()
    def sample_step(self, x, cond):
        now = self.schedule.now
        v = self.guidance.combine(self.net(x + cond, now), self.net(x, now))
        x = x + v * self.schedule.width
        self.schedule.move()
        self.taken += 1
        return x


def build(device):
    sampler = FlowSampler(Velocity().to(device), Schedule(20, device), Guidance(2.0))
    return sampler.sample_step, (torch.randn(4, 16, device=device), torch.randn(4, 16, device=device))
