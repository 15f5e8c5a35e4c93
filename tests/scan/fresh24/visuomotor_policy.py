"""Diffusion policy for a manipulator: observation history, DDIM denoising of an action chunk."""
from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn


class Spec(NamedTuple):
    obs: int = 14
    act: int = 7
    hist: int = 4
    horizon: int = 8
    train_steps: int = 50
    infer_steps: int = 5


class Alphas:
    def __init__(self, spec: Spec, device):
        betas = torch.linspace(1e-4, 0.02, spec.train_steps, device=device)
        self.bar = torch.cumprod(1 - betas, 0)
        stride = spec.train_steps // spec.infer_steps
        self.timesteps = torch.arange(spec.train_steps - 1, -1, -stride, device=device)
        self.stride = stride

    def coefficients(self, t):
        now = self.bar[t]
        prev = self.bar[max(t - self.stride, 0)]
        return now, prev


class NoiseSource:
    def __init__(self, device, seed):
        self.device = device
        self.gen = torch.Generator()
        self.gen.manual_seed(seed)

    def chunk(self, spec):
        z = torch.randn(1, spec.horizon, spec.act, generator=self.gen)
        return z.to(self.device)


class ObservationHistory:
    def __init__(self, spec, device):
        self.frames = torch.zeros(1, spec.hist, spec.obs, device=device)

    def observe(self, obs):
        self.frames = torch.cat([self.frames[:, 1:], obs.unsqueeze(1)], dim=1)
        return self.frames.flatten(1)


class Denoiser(nn.Module):
    def __init__(self, spec, width=64):
        super().__init__()
        self.time = nn.Embedding(spec.train_steps, width)
        self.cond = nn.Linear(spec.hist * spec.obs, width)
        self.inp = nn.Linear(spec.act, width)
        self.mix = nn.Conv1d(width, width, 3, padding=1)
        self.out = nn.Linear(width, spec.act)

    def forward(self, noisy, t, cond):
        h = self.inp(noisy) + self.time(t)[:, None] + self.cond(cond)[:, None]
        h = h + torch.nn.functional.silu(self.mix(h.transpose(1, 2)).transpose(1, 2))
        return self.out(h)


class ActionNormalizer:
    """Commands are relative to the pose, inside the limits of the arm."""

    def __init__(self, spec, device):
        self.span = torch.linspace(0.2, 0.8, spec.act, device=device)

    def decode(self, action, joint_state):
        return joint_state[:, None] + action.clamp(-1, 1) * self.span


class Policy:
    def __init__(self, spec, device):
        torch.manual_seed(11)
        self.spec = spec
        self.alphas = Alphas(spec, device)
        self.net = Denoiser(spec).to(device).eval()
        self.history = ObservationHistory(spec, device)
        self.noise = NoiseSource(device, seed=5)
        self.normalizer = ActionNormalizer(spec, device)

    def denoise(self, cond):
        x = self.noise.chunk(self.spec)
        for i in range(self.spec.infer_steps):
            step = self.alphas.timesteps[i]
            now, prev = self.alphas.coefficients(step.item())
            eps = self.net(x, step.expand(1), cond)
            x0 = (x - (1 - now).sqrt() * eps) / now.sqrt()
            x = prev.sqrt() * x0 + (1 - prev).sqrt() * eps
        return x

    @torch.no_grad()
    def act(self, obs, joint_state):
        cond = self.history.observe(obs)
        chunk = self.denoise(cond)
        return self.normalizer.decode(chunk, joint_state)


def build(device):
    spec = Spec()
    policy = Policy(spec, device)
    return policy.act, (torch.randn(1, spec.obs, device=device), torch.randn(1, spec.act, device=device))
