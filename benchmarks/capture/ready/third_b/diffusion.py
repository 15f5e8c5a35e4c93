"""Denoising steps and the bookkeeping around them."""
import itertools
import math
from contextlib import nullcontext

import numpy as np
import torch
from torch import nn


def lane(device):
    return torch.cuda.Stream(device) if device.type == "cuda" else None


def on(stream):
    return torch.cuda.stream(stream) if stream is not None else nullcontext()


class Antithetic:
    signs = None

    def __init__(self, batch, device):
        if Antithetic.signs is None or Antithetic.signs.shape[0] < batch:
            half = torch.ones(batch // 2, 1, device=device)
            Antithetic.signs = torch.cat([half, -half])
        self.batch = batch
        self.gain = torch.randn(16, device=device)

    def __call__(self, x, noise):
        paired = noise.repeat(2, 1) * Antithetic.signs[: self.batch]
        return x + self.gain * paired


def build_antithetic_noise(device, batch=4):
    return Antithetic(batch, device), (torch.randn(batch, 16, device=device), torch.randn(batch // 2, 16, device=device))


SCRATCH = {}
MOST = 16


def scratch(width, device):
    key = (width, str(device))
    if key not in SCRATCH:
        SCRATCH[key] = torch.empty(MOST, width, device=device)
    return SCRATCH[key]


def build_guided_scratch(device, batch=4):
    w = torch.randn(24, 24, device=device) / 5

    def step(x, guide):
        work = scratch(24, device)[:batch]
        work.zero_()
        work.addmm_(x, w)
        work.add_(guide, alpha=1.5)
        return torch.tanh(work)

    return step, (torch.randn(batch, 24, device=device), torch.randn(batch, 24, device=device))


class TextConditioned(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.project = nn.Sequential(nn.Linear(dim, 48), nn.GELU(), nn.Linear(48, dim))
        self.body = nn.Linear(dim, dim)
        self.embedded = {}

    def embed(self, text):
        key = (text.data_ptr(), tuple(text.shape), text.dtype)
        found = self.embedded.get(key)
        if found is None:
            found = self.embedded[key] = self.project(text).mean(dim=0)
        return found

    @torch.no_grad()
    def forward(self, x, text):
        return self.body(x + self.embed(text))


def build_text_conditioned(device):
    model = TextConditioned().to(device).eval()
    return model, (torch.randn(4, 24, device=device), torch.randn(7, 24, device=device))


class SigmaWalk:
    def __init__(self, device):
        self.net = torch.randn(16, 16, device=device) / 4
        self.sigmas = itertools.cycle(np.geomspace(8.0, 0.05, 25).tolist())

    def __call__(self, x):
        sigma = next(self.sigmas)
        eps = torch.tanh((x / math.sqrt(1.0 + sigma * sigma)) @ self.net)
        return x - sigma * eps


def build_sigma_walk(device):
    return SigmaWalk(device), (torch.randn(4, 16, device=device),)


class LatentPages:
    """Three rolling latents, one for each frame of a short clip."""

    def __init__(self, device):
        self.pages = [torch.zeros(4, 16, device=device) for _ in range(3)]
        self.current = torch.empty(0, device=device)
        self.frame = 0

    def __call__(self, update):
        self.current.set_(self.pages[self.frame % 3])
        self.frame += 1
        self.current.mul_(0.9).add_(update)
        return self.current.sum(dim=-1)


def build_latent_pages(device):
    return LatentPages(device), (torch.randn(4, 16, device=device),)


class GuidanceLanes:
    def __init__(self, device, dim=256):
        self.w = torch.randn(dim, dim, device=device) / math.sqrt(dim)
        self.plain = torch.zeros(64, dim, device=device)
        self.guided = torch.zeros(64, dim, device=device)
        self.one, self.two = lane(device), lane(device)

    def __call__(self, x, cond):
        main = torch.cuda.current_stream() if self.one is not None else None
        if main is not None:
            self.one.wait_stream(main)
            self.two.wait_stream(main)
        with on(self.one):
            h = x
            for _ in range(10):
                h = torch.tanh(h @ self.w)
            self.plain.copy_(h)
        with on(self.two):
            g = torch.tanh((x + cond) @ self.w)
            self.guided.copy_(self.plain + 3.0 * (g - self.plain))
        if main is not None:
            main.wait_stream(self.one)
            main.wait_stream(self.two)
        return self.guided.clone()


def build_guidance_lanes(device):
    return GuidanceLanes(device), (torch.randn(64, 256, device=device), torch.randn(64, 256, device=device))


class UnrolledHeun:
    def __init__(self, device, steps=4):
        self.w = torch.randn(16, 16, device=device) / 4
        self.sigmas = [3.0 * (1 - i / steps) for i in range(steps + 1)]

    def slope(self, x, sigma):
        return torch.tanh(x @ self.w) / (1.0 + sigma)

    def __call__(self, x):
        walk = iter(self.sigmas)
        sigma = next(walk)
        for lower in walk:
            d = self.slope(x, sigma)
            ahead = x + (lower - sigma) * d
            x = x + 0.5 * (lower - sigma) * (d + self.slope(ahead, lower))
            sigma = lower
        return x


def build_unrolled_heun(device):
    return UnrolledHeun(device), (torch.randn(4, 16, device=device),)


class CountedDenoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 16))
        self.calls = 0
        self.seen = {}

    @torch.no_grad()
    def forward(self, x, sigma):
        self.calls += 1
        self.seen[tuple(x.shape)] = self.calls
        scale = 1.0 / torch.sqrt(1.0 + sigma * sigma)
        return x * scale + self.body(x) * sigma


def build_counted_denoiser(device):
    return CountedDenoiser().to(device), (torch.randn(4, 16, device=device), torch.rand(4, 1, device=device) + 0.1)
