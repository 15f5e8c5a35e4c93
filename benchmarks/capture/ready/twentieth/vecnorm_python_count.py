"""Observation normaliser (VecNormalize): running mean and variance with the count as a Python number."""
import torch
import torch.nn as nn

import graphsafe


class RunningMeanStd:
    def __init__(self, shape, device, epsilon=1e-4):
        self.mean = torch.zeros(shape, device=device)
        self.var = torch.ones(shape, device=device)
        self.count = epsilon

    def update(self, x):
        bm, bv, bc = x.mean(0), x.var(0, unbiased=False), x.shape[0]
        delta = bm - self.mean
        tot = self.count + bc
        m2 = self.var * self.count + bv * bc + delta.square() * self.count * bc / tot
        self.mean.add_(delta * bc / tot)
        self.var.copy_(m2 / tot)
        self.count = tot


class Policy(nn.Module):
    def __init__(self, obs, act):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs, 32), nn.Tanh(), nn.Linear(32, act))

    def forward(self, x):
        return self.net(x).tanh()


def build(device, envs=16, obs=5):
    rms = RunningMeanStd((obs,), device)
    policy = Policy(obs, 2).to(device).requires_grad_(False)
    x = torch.randn(envs, obs, device=device)

    def step(x):
        rms.update(x)
        z = ((x - rms.mean) / (rms.var + 1e-8).sqrt()).clamp(-10, 10)
        return policy(z)

    return graphsafe.Step(step, (x,), refresh=lambda a, k, i: a[0].copy_(torch.randn(envs, obs) * 2 + 1))
