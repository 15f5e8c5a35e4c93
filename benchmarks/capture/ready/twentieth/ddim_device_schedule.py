"""DDIM denoising step with classifier-free guidance; the step index is a device tensor that the step advances."""
import math

import torch
import torch.nn as nn

import graphsafe


def timestep_embedding(t, dim):
    half = dim // 2
    freqs = torch.exp(-math.log(10000) * torch.arange(half, device=t.device, dtype=torch.float32) / half)
    args = t[:, None].float() * freqs[None]
    return torch.cat([args.cos(), args.sin()], -1)


class UNet(nn.Module):
    def __init__(self, c=4, dim=16):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.inp = nn.Conv2d(c, dim, 3, padding=1)
        self.ctx = nn.Linear(8, dim)
        self.norm = nn.GroupNorm(4, dim)
        self.out = nn.Conv2d(dim, c, 3, padding=1)

    def forward(self, x, t, ctx):
        emb = self.time(timestep_embedding(t, 16)) + self.ctx(ctx)
        h = self.inp(x) + emb[:, :, None, None]
        return self.out(nn.functional.silu(self.norm(h)))


class DDIM:
    def __init__(self, device, steps=50):
        betas = torch.linspace(0.00085**0.5, 0.012**0.5, 1000) ** 2
        ac = torch.cumprod(1 - betas, 0)
        ts = torch.arange(999, -1, -1000 // steps)
        self.timesteps = ts.to(device)
        self.alpha = ac[ts].to(device)
        self.alpha_prev = torch.cat([ac[ts[1:]], ac[:1]]).to(device)
        self.steps = len(ts)
        self.i = torch.zeros(1, dtype=torch.long, device=device)
        self.guidance = torch.full((1,), 7.5, device=device)
        self.model = UNet().to(device).requires_grad_(False)

    def step(self, x, ctx):
        t = self.timesteps[self.i].expand(2 * x.shape[0])
        eps_u, eps_c = self.model(torch.cat([x, x]), t, ctx).chunk(2)
        eps = eps_u + self.guidance * (eps_c - eps_u)
        a, ap = self.alpha[self.i], self.alpha_prev[self.i]
        x0 = ((x - (1 - a).sqrt() * eps) / a.sqrt()).clamp(-3, 3)
        x.copy_(ap.sqrt() * x0 + (1 - ap).sqrt() * eps)
        self.i.add_(1).remainder_(self.steps)
        return x0


def build(device, batch=2):
    d = DDIM(device)
    x = torch.randn(batch, 4, 8, 8, device=device)
    ctx = torch.randn(2 * batch, 8, device=device)

    def reset():
        d.i.zero_()

    def refresh(args, kwargs, k):
        if k % 10 == 0:  # a new image
            args[0].copy_(torch.randn(batch, 4, 8, 8))
            args[1].copy_(torch.randn(2 * batch, 8))
            d.i.zero_()

    return graphsafe.Step(d.step, (x, ctx), refresh=refresh, reset=reset)
