"""DDIM with classifier-free guidance; the step counter and the schedule stay on the device."""
import torch
import torch.nn as nn

import graphsafe


def timestep_embedding(t, dim=16):
    half = dim // 2
    freqs = torch.exp(-torch.arange(half, device=t.device, dtype=torch.float32) * (9.21 / half))
    a = t[:, None].float() * freqs[None]
    return torch.cat([a.cos(), a.sin()], dim=-1)


class Denoiser(nn.Module):
    def __init__(self, ch=3, cond=8):
        super().__init__()
        self.emb = nn.Linear(16 + cond, 12)
        self.c1, self.c2 = nn.Conv2d(ch, 12, 3, padding=1), nn.Conv2d(12, ch, 3, padding=1)
        self.norm = nn.GroupNorm(3, 12)

    def forward(self, x, t, c):
        e = self.emb(torch.cat([timestep_embedding(t), c], -1))
        h = self.c1(x) + e[..., None, None]
        return self.c2(nn.functional.silu(self.norm(h)))


class DDIM:
    def __init__(self, model, device, steps=20, guidance=3.0, batch=2):
        self.model, self.steps = model, steps
        acp = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0)
        ts = torch.linspace(999, 0, steps).long()
        self.t = ts.to(device)
        self.alpha = acp[ts].to(device)
        self.alpha_prev = torch.cat([acp[ts[1:]], torch.ones(1)]).to(device)
        self.guidance = torch.full((batch, 1, 1, 1), guidance, device=device)
        self.index = torch.zeros(1, dtype=torch.long, device=device)
        self.x = torch.randn(batch, 3, 8, 8, device=device)

    def step(self, cond):
        b = self.x.shape[0]
        t = self.t.index_select(0, self.index).expand(2 * b)
        a = self.alpha.index_select(0, self.index).view(1, 1, 1, 1)
        ap = self.alpha_prev.index_select(0, self.index).view(1, 1, 1, 1)
        both = torch.cat([self.x, self.x])
        eps_u, eps_c = self.model(both, t, torch.cat([torch.zeros_like(cond), cond])).chunk(2)
        eps = eps_u + self.guidance * (eps_c - eps_u)
        x0 = ((self.x - (1 - a).sqrt() * eps) / a.sqrt()).clamp(-3, 3)
        self.x.copy_(ap.sqrt() * x0 + (1 - ap).sqrt() * eps)
        self.index.add_(1).remainder_(self.steps)
        return self.x.clone(), x0


def build(device):
    torch.manual_seed(3)
    model = Denoiser().to(device).eval().requires_grad_(False)
    sampler = DDIM(model, device)
    cond = torch.randn(2, 8, device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, 8))
        if k % 20 == 0:
            sampler.x.copy_(torch.randn(2, 3, 8, 8))
            sampler.index.zero_()
            sampler.guidance.fill_(2.0 + (k % 3))

    return graphsafe.Step(sampler.step, (cond,), refresh=refresh)
