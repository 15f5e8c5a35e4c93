"""A compiled denoiser with classifier-free guidance; the guidance slider is a buffer that the user interface fills."""
import torch
from torch import nn

import graphsafe


class Denoiser(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width + 1, 48), nn.SiLU(), nn.Linear(48, width))
        self.register_buffer("guidance", torch.full((), 3.0))

    def forward(self, x, sigma):
        free = self.body(torch.cat([x, sigma.expand(len(x), 1)], dim=1))
        told = self.body(torch.cat([x.roll(1, 0), sigma.expand(len(x), 1)], dim=1))
        noise = free + self.guidance * (told - free)
        return x - sigma * torch.tanh(noise)


def build(device, batch=4, width=16):
    model = Denoiser(width).to(device).eval().requires_grad_(False)
    step = torch.compile(model)
    x = torch.randn(batch, width).to(device)
    sigma = torch.ones(1, device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, width))
        args[1].fill_(1.0 - 0.05 * (k % 16))
        if k % 20 == 19:
            model.guidance.fill_(1.5 + 0.5 * (k // 20 % 4))

    return graphsafe.Step(step, (x, sigma), refresh=refresh)
