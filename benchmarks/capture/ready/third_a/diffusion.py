"""Sampler and training steps of a toy diffusion model."""
import math
import random
from collections import namedtuple

import numpy as np
import torch
import torch.nn.functional as F

Stage = namedtuple("Stage", "sigma sigma_next cond")


class Denoiser(torch.nn.Module):
    def __init__(self, dim=16, cond=4):
        super().__init__()
        self.inp = torch.nn.Linear(dim + cond, 32)
        self.out = torch.nn.Linear(32, dim)

    def forward(self, x, cond):
        return self.out(F.silu(self.inp(torch.cat([x, cond], -1))))


def build_euler_step(device):
    net = Denoiser().to(device).eval()

    @torch.no_grad()
    def step(x, stage):
        slope = (x - net(x, stage.cond)) / stage.sigma
        return x + slope * (stage.sigma_next - stage.sigma)

    stage = Stage(torch.tensor(4.0), torch.tensor(2.5), torch.randn(3, 4, device=device))
    return step, (torch.randn(3, 16, device=device), stage)


class AncestralSampler:
    def __init__(self, net, churn=0.2):
        self.net, self.churn = net, churn

    @torch.no_grad()
    def step(self, x, cond):
        gamma = 1.0 + self.churn * abs(float(np.random.standard_normal()))
        eps = torch.randn_like(x)
        x = x + 0.3 * math.sqrt(gamma**2 - 1.0) * eps
        return x + (self.net(x, cond) - x) * 0.25


def build_ancestral_step(device):
    sampler = AncestralSampler(Denoiser().to(device).eval())
    return sampler.step, (torch.randn(3, 16, device=device), torch.randn(3, 4, device=device))


def guidance_plan(early, late, steps):
    for _ in range(steps):
        yield early
    while True:
        yield late


class GuidedSampler:
    def __init__(self, net):
        self.net = net
        self.plan = guidance_plan(5.0, 1.5, 40)

    @torch.no_grad()
    def __call__(self, x, cond):
        both = self.net(torch.cat([x, x]), torch.cat([cond, torch.zeros_like(cond)]))
        yes, no = both.chunk(2)
        return torch.lerp(no, yes, next(self.plan))


def build_guided_step(device):
    return GuidedSampler(Denoiser().to(device).eval()), (torch.randn(3, 16, device=device), torch.randn(3, 4, device=device))


def build_fixed_noise_preview(device):
    net = Denoiser().to(device).eval()
    devices = [device] if device.type == "cuda" else []

    @torch.no_grad()
    def preview(cond):
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(31)
            x = torch.randn(cond.shape[0], 16, device=device)
        for _ in range(2):
            x = x + 0.5 * (net(x, cond) - x)
        return x

    return preview, (torch.randn(3, 4, device=device),)


def build_inpaint_step(device):
    net = Denoiser().to(device).eval()

    @torch.no_grad()
    def step(x, known, cond, background):
        x = torch.where(known, background, x)
        return x + 0.1 * net(x, cond)

    known = torch.rand(3, 16, device=device) > 0.6
    return step, (torch.randn(3, 16, device=device), known, torch.randn(3, 4, device=device), torch.tensor(0.25))


class Corruptor:
    """Adds noise to training targets with a stream that the data loader does not disturb."""

    def __init__(self, device, seed):
        self.rng = torch.Generator(device=device)
        self.rng.manual_seed(seed)

    def __call__(self, clean):
        t = torch.rand(clean.shape[0], 1, device=clean.device, generator=self.rng)
        eps = torch.randn(clean.shape, device=clean.device, generator=self.rng)
        return clean * (1 - t) + eps * t, eps - clean


def build_flow_matching_loss(device):
    net, corrupt = Denoiser().to(device), Corruptor(device, 9)

    @torch.no_grad()
    def step(clean, cond):
        noisy, velocity = corrupt(clean)
        return F.mse_loss(net(noisy, cond), velocity, reduction="none").mean(-1)

    return step, (torch.randn(8, 16, device=device), torch.randn(8, 4, device=device))


def build_latent_encoder(device):
    enc, dec = torch.nn.Linear(16, 12).to(device), torch.nn.Linear(6, 16).to(device)

    @torch.no_grad()
    def step(x):
        mean, spread = enc(x).chunk(2, -1)
        spread = F.softplus(spread)
        z = torch.normal(mean, spread)
        kl = 0.5 * (mean**2 + spread**2 - 1 - 2 * spread.log()).sum(-1)
        return dec(z), kl

    return step, (torch.randn(5, 16, device=device),)


def build_stratified_times(device):
    net = Denoiser().to(device).eval()

    @torch.no_grad()
    def step(clean, cond):
        g = torch.Generator().manual_seed(7)
        offsets = [torch.rand((), generator=g).item() for _ in range(3)]
        total = torch.zeros_like(clean)
        for i, u in enumerate(offsets):
            t = (i + u) / len(offsets)
            total = total + net(clean * (1 - t) + t * torch.randn_like(clean), cond)
        return total / len(offsets)

    return step, (torch.randn(4, 16, device=device), torch.randn(4, 4, device=device))


class ClassifierFree(torch.nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.embed = torch.nn.Embedding(classes + 1, 4)
        self.net = Denoiser()
        self.null = None
        self.register_buffer("alpha", torch.cos(torch.linspace(0, 1.5, 100)) ** 2)

    @torch.no_grad()
    def forward(self, x, label, t):
        if self.null is None:
            self.null = self.embed.weight[-1].clone()
        yes = self.net(x, self.embed(label))
        no = self.net(x, self.null.expand(x.shape[0], -1))
        eps = no + 3.0 * (yes - no)
        a = self.alpha[t].unsqueeze(-1)
        return (x - (1 - a).sqrt() * eps) / a.sqrt().clamp_min(0.05)


def build_classifier_free_step(device):
    model = ClassifierFree().to(device).eval()
    label = torch.randint(0, 10, (4,), device=device)
    return model, (torch.randn(4, 16, device=device), label, torch.tensor([99, 50, 20, 3], device=device))


def build_antithetic_loss(device):
    net = Denoiser().to(device)

    @torch.no_grad()
    def step(clean, cond):
        sign = random.choice((-1.0, 1.0))
        eps = sign * torch.randn_like(clean)
        up, down = net(clean + 0.4 * eps, cond), net(clean - 0.4 * eps, cond)
        return 0.5 * (up + down), ((up - down) ** 2).mean(-1)

    return step, (torch.randn(4, 16, device=device), torch.randn(4, 4, device=device))
