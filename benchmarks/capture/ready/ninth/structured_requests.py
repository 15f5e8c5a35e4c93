"""Guided denoising of a batch of requests; the front end hands over a NumPy record per request."""
import numpy as np
import torch
from torch import nn

import graphsafe

REQUEST = np.dtype([("user", "U8"), ("guidance", "f4"), ("preview", "?")])


class Denoiser(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.free, self.guided = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, latents, requests):
        rows = []
        for latent, request in zip(latents, requests):
            guidance = float(request["guidance"])  # <-B
            free, guided = self.free(latent), self.guided(latent)
            rows.append(free if request["preview"] else torch.lerp(free, guided, guidance))  # <-A
        return torch.stack(rows)


def build(device, width=16):
    model = Denoiser(width).to(device).eval().requires_grad_(False)
    requests = np.array([("ada", 1.5, False), ("bob", 1.5, False), ("eve", 1.5, False)], dtype=REQUEST)
    latents = torch.randn(len(requests), width).to(device)
    return graphsafe.Step(model, (latents, requests))


def drive(args, kwargs, k):  # real traffic, for the oracle: most use the default
    args[0].copy_(torch.randn(args[0].shape))
    args[1]["guidance"][1] = 4.0 if k % 5 == 4 else 1.5
    args[1]["preview"][2] = k % 10 == 9
