"""Guidance scale and timestep as 0-d CPU tensors (diffusers keeps them there), filled in place by the loop."""
import torch
import torch.nn as nn

import graphsafe


class Denoiser(nn.Module):
    def __init__(self, c=4, d=16):
        super().__init__()
        self.inp, self.out = nn.Conv2d(c, d, 3, padding=1), nn.Conv2d(d, c, 3, padding=1)
        self.cond = nn.Linear(6, d)

    def forward(self, x, cond):
        h = self.inp(x) + self.cond(cond)[:, :, None, None]
        return self.out(nn.functional.silu(h))


class Pipeline:
    def __init__(self, device, steps=20):
        self.model = Denoiser().to(device).requires_grad_(False)
        self.sigmas = torch.linspace(1.0, 0.0, steps + 1)
        self.sigma, self.sigma_next = torch.tensor(1.0), torch.tensor(0.95)
        self.guidance = torch.tensor(5.0)
        self.steps = steps

    def set_step(self, i):
        self.sigma.copy_(self.sigmas[i % self.steps])
        self.sigma_next.copy_(self.sigmas[i % self.steps + 1])

    def step(self, x, cond, uncond):
        v_c, v_u = self.model(x, cond), self.model(x, uncond)
        v = v_u + self.guidance * (v_c - v_u)
        x.add_((self.sigma_next - self.sigma) * v)
        return v


def build(device, batch=2):
    p = Pipeline(device)
    args = (torch.randn(batch, 4, 6, 6, device=device), torch.randn(batch, 6, device=device), torch.zeros(batch, 6, device=device))

    def refresh(args, kwargs, k):
        p.set_step(k)
        if k % p.steps == 0:
            args[0].copy_(torch.randn(batch, 4, 6, 6))
            args[1].copy_(torch.randn(batch, 6))

    return graphsafe.Step(p.step, args, refresh=refresh)
