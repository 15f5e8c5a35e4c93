"""Diffusion sampling with the Euler scheduler of diffusers: step_index lives on the host."""
import torch
import torch.nn as nn

import graphsafe


class EulerScheduler:
    def __init__(self, steps=30, train=1000, device=None):
        betas = torch.linspace(0.00085**0.5, 0.012**0.5, train) ** 2
        acp = torch.cumprod(1 - betas, 0)
        idx = torch.linspace(train - 1, 0, steps).long()
        sigmas = (((1 - acp) / acp) ** 0.5)[idx]
        self.sigmas = torch.cat([sigmas, sigmas.new_zeros(1)])
        self.timesteps = idx.to(device=device, dtype=torch.float32)
        self.steps = steps
        self.step_index = 0

    def scale_model_input(self, sample):
        sigma = float(self.sigmas[self.step_index])
        return sample / (sigma**2 + 1) ** 0.5

    def step(self, eps, sample):
        sigma = float(self.sigmas[self.step_index])
        following = float(self.sigmas[self.step_index + 1])
        self.step_index = (self.step_index + 1) % self.steps
        return sample + eps * (following - sigma)


class UNet(nn.Module):
    def __init__(self, ch=4):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(1, 16), nn.SiLU(), nn.Linear(16, ch))
        self.c1 = nn.Conv2d(ch, 8, 3, padding=1)
        self.c2 = nn.Conv2d(8, ch, 3, padding=1)

    def forward(self, x, t):
        return self.c2(torch.tanh(self.c1(x + self.time(t.view(1, 1) / 1000)[..., None, None])))


def build(device):
    torch.manual_seed(10)
    unet = UNet().to(device).eval().requires_grad_(False)
    scheduler = EulerScheduler(device=device)
    latents = torch.randn(1, 4, 8, 8, device=device)

    def denoise(latents):
        t = scheduler.timesteps[scheduler.step_index]
        eps = unet(scheduler.scale_model_input(latents), t)
        return scheduler.step(eps, latents)

    return graphsafe.Step(denoise, (latents,), refresh=lambda a, kw, k: a[0].copy_(torch.randn(1, 4, 8, 8)))
