"""A diffusion sampler with TeaCache: a nonlocal float of the step decides if the blocks run or the residual is kept."""
import math

import torch

import graphsafe


def build(device, dim=8, steps=20, threshold=0.2):
    blocks = torch.nn.Sequential(torch.nn.Linear(dim, dim), torch.nn.SiLU(), torch.nn.Linear(dim, dim))
    blocks = blocks.to(device).requires_grad_(False)
    residual = torch.zeros(3, dim, device=device)
    time = torch.ones(1, device=device)
    level, previous, distance = 1.0, 9.0, 0.0

    def step(latent):
        nonlocal level, previous, distance
        distance += abs(math.sin(3 * level) - math.sin(3 * previous))
        previous = level
        if distance > threshold:
            residual.copy_(blocks(latent + torch.sin(3 * time)) - latent)
            distance = 0.0
        latent.add_(residual, alpha=1 / steps)
        return latent.clone()

    def refresh(args, kwargs, k):
        nonlocal level
        level = 1.0 - k % steps / steps
        time.fill_(level)
        if k % steps == 0:
            args[0].copy_(torch.randn(3, dim))

    return graphsafe.Step(step, (torch.randn(3, dim, device=device),), refresh=refresh)
