"""Guidance interval: classifier-free guidance is applied only in the middle of the schedule, by a host counter."""
import torch
import torch.nn as nn

import graphsafe


class Net(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(d + 4, 48), nn.SiLU(), nn.Linear(48, d))

    def forward(self, x, cond):
        return self.f(torch.cat([x, cond], -1))


class FlowSampler:
    def __init__(self, device, steps=12, lo=0.25, hi=0.75, scale=4.0):
        self.net = Net().to(device).requires_grad_(False)
        self.null = torch.zeros(1, 4, device=device)
        self.steps, self.lo, self.hi, self.scale = steps, lo, hi, scale
        self.count = 0

    def step(self, x, cond):
        t = (self.count % self.steps) / self.steps
        v = self.net(x, cond)
        if self.lo <= t < self.hi:
            v0 = self.net(x, self.null.expand(x.shape[0], -1))
            v = v0 + self.scale * (v - v0)
        x.add_(v, alpha=1.0 / self.steps)
        self.count += 1
        return v


def build(device, batch=3):
    s = FlowSampler(device)
    x, c = torch.randn(batch, 16, device=device), torch.randn(batch, 4, device=device)

    def refresh(args, kwargs, k):
        if k % s.steps == 0:
            args[0].copy_(torch.randn(batch, 16))
            args[1].copy_(torch.randn(batch, 4))

    return graphsafe.Step(s.step, (x, c), refresh=refresh)
