"""Loops around a scheduler, and parts of the network."""

import math

import torch
from torch import nn


class Pipeline:
    def __init__(self, scheduler, callbacks=()):
        self.scheduler, self.callbacks = scheduler, list(callbacks)

    def __call__(self, latents):
        for number, t in enumerate(self.scheduler.timesteps[:3]):
            if t > 8:  # guilty: timestep_loop GS102
                latents = latents * 0.9
            latents = self.advance(latents, number)
        return latents

    def advance(self, latents, number):
        latents = latents - 0.1 * latents.tanh()
        for callback in self.callbacks:
            callback(number, latents)
        return latents


class HostPipeline(Pipeline):
    # quiet: timestep_range
    def __call__(self, latents):
        for number, t in enumerate(range(10, 7, -1)):
            if t > 8:
                latents = latents * 0.9
            latents = self.advance(latents, number)
        return latents


def progress(number, latents):
    print(f"{number}: {latents.mean():.3f}", file=DEVNULL)  # guilty: progress GS104


class Nowhere:
    def write(self, text):
        return len(text)


DEVNULL = Nowhere()


class Guidance:
    """The weight of the prompt follows a curve over the steps."""

    def __init__(self, curve=lambda n: 1.0 + math.sin(n)):
        self.curve, self.calls = curve, {"n": 0}

    def combine(self, conditional, unconditional):
        self.calls["n"] += 1  # guilty: guidance_curve GS702
        weight = self.curve(self.calls["n"])  # guilty: guidance_curve GS702
        return unconditional + weight * (conditional - unconditional)


class FastGuidance(Guidance):
    def combine(self, conditional, unconditional):
        if torch.allclose(conditional, unconditional):  # guilty: same_prompts GS106|GS102
            return conditional
        return 2 * conditional - unconditional


class TimeEmbedding(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.dim = dim

    def forward(self, x, timestep=7):
        if not torch.is_tensor(timestep):
            timestep = torch.tensor([timestep], dtype=x.dtype, device=x.device)  # guilty: number_to_tensor GS301
        angles = timestep[:, None] * torch.arange(self.dim, device=x.device)
        return x + self.proj(angles.cos())


class DeepCache(nn.Module):
    """Reuses the deep features of the last full step."""

    def __init__(self, dim, device, interval=3):
        super().__init__()
        self.deep, self.outer = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.interval = interval
        self.register_buffer("features", torch.zeros(dim, device=device))
        self.cursor = iter(self._turns())

    def _turns(self):
        while True:
            yield from [True] + [False] * (self.interval - 1)

    def forward(self, x):
        if next(self.cursor):  # guilty: deep_turns GS702
            self.features.copy_(self.deep(x).mean(0))
        return self.outer(x) + self.features
