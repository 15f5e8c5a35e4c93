"""Flow matching with dynamic shifting: set_timesteps makes a new table of sigmas for each image."""
import torch

import graphsafe


import math


class FlowScheduler:
    def __init__(self, device):
        self.device = device
        self.kept = []
        self.index = torch.zeros(1, dtype=torch.long, device=device)
        self.set_timesteps(15, 256)

    def set_timesteps(self, steps, tokens):
        mu = 0.5 + (tokens - 256) / (4096 - 256) * 0.65
        t = torch.linspace(1.0, 1.0 / steps, steps, dtype=torch.float64)
        sigmas = math.exp(mu) / (math.exp(mu) + (1 / t - 1))
        self.sigmas = torch.cat([sigmas, torch.zeros(1, dtype=torch.float64)]).float().to(self.device)
        self.kept.append(self.sigmas)
        self.index.zero_()

    def step(self, velocity, sample):
        now = self.sigmas.index_select(0, self.index)
        later = self.sigmas.index_select(0, self.index + 1)
        self.index.add_(1).remainder_(15)
        return sample + (later - now) * velocity


class Pipeline:
    def __init__(self, device):
        self.scheduler = FlowScheduler(device)
        self.weight = torch.randn(8, 8, device=device) / 3
        self.latents = torch.randn(4, 8, device=device)

    def step(self, prompt):
        velocity = torch.tanh(self.latents @ self.weight + prompt)
        self.latents.copy_(self.scheduler.step(velocity, self.latents))
        return self.latents * 1.0


def build(device):
    pipeline = Pipeline(device)

    def refresh(args, kwargs, k):
        if k % 15 == 0:
            pipeline.scheduler.set_timesteps(15, 4096 if k >= 90 else 256)
            pipeline.latents.copy_(torch.randn(4, 8))
            args[0].copy_(torch.randn(4, 8))

    return graphsafe.Step(pipeline.step, (torch.randn(4, 8, device=device),), refresh=refresh)
