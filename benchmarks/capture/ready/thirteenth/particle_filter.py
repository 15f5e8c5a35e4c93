"""Particle filter with systematic resampling whenever the effective number falls, chosen by torch.where."""
import math

import torch

import graphsafe

PARTICLES = 512


class Filter:
    def __init__(self, device):
        self.x = torch.randn(PARTICLES, 2, device=device, dtype=torch.float64)
        self.log_weight = torch.full((PARTICLES,), -math.log(PARTICLES), device=device, dtype=torch.float64)
        self.observed = torch.zeros((), device=device, dtype=torch.float64)
        self.comb = torch.arange(PARTICLES, device=device, dtype=torch.float64)
        self.resampled = torch.zeros((), dtype=torch.long, device=device)

    def step(self):
        noise = torch.randn_like(self.x) * 0.1
        position = self.x[:, 0] + 0.1 * self.x[:, 1]
        speed = self.x[:, 1] - 0.1 * torch.sin(self.x[:, 0])
        moved = torch.stack([position, speed], 1) + noise
        log_weight = self.log_weight - 0.5 * ((self.observed - moved[:, 0]) / 0.5).square()
        log_weight = log_weight - torch.logsumexp(log_weight, 0)
        weight = log_weight.exp()
        effective = 1.0 / weight.square().sum()
        edges = weight.cumsum(0)
        points = (self.comb + torch.rand((), device=self.x.device, dtype=torch.float64)) / PARTICLES
        index = torch.searchsorted(edges / edges[-1:], points).clamp(max=PARTICLES - 1)
        again = effective < PARTICLES / 2
        self.x.copy_(torch.where(again, moved[index], moved))
        self.log_weight.copy_(torch.where(again, -math.log(PARTICLES), log_weight))
        self.resampled.add_(again)
        mean = (weight[:, None] * moved).sum(0)
        return mean, effective, self.resampled

    def observe(self, args, kwargs, k):
        self.observed.copy_(torch.tensor(math.sin(0.07 * k)) + 0.3 * torch.randn(()))


def build(device):
    tracker = Filter(device)
    return graphsafe.Step(tracker.step, (), {}, refresh=tracker.observe)
