"""A robot's policy with a watchdog: the torque limit is halved if the operator has been silent for 45 s of uptime."""
import time

import torch
from torch import nn

import graphsafe


def uptime():
    with open("/proc/uptime") as f:
        return float(f.read().split()[0])


class Policy(nn.Module):
    def __init__(self, sensors, joints, silence):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(sensors, 64), nn.Tanh(), nn.Linear(64, joints))
        self.silence = silence
        self.heartbeat = uptime()

    def limit(self):
        return 1.0 if uptime() - self.heartbeat < self.silence else 0.5  # <-B

    def forward(self, sensors):
        limit = self.limit()
        return torch.clamp(self.trunk(sensors) * 4, -limit, limit)  # <-A


def build(device, batch=4, sensors=10, joints=6, silence=45.0):
    policy = Policy(sensors, joints, silence).to(device).eval().requires_grad_(False)
    x = torch.randn(batch, sensors).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, sensors))

    return graphsafe.Step(policy, (x,), refresh=refresh)


def between(k):  # for the oracle: the operator is silent
    if k == 5:
        time.sleep(46)
