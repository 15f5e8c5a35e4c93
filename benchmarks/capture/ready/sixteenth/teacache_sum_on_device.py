"""A diffusion sampler with TeaCache: a device sum of changes chooses between the new and the cached residual."""
import torch

import graphsafe


def build(device, dim=8, steps=20, threshold=0.2):
    blocks = torch.nn.Sequential(torch.nn.Linear(dim, dim), torch.nn.SiLU(), torch.nn.Linear(dim, dim))
    blocks = blocks.to(device).requires_grad_(False)
    residual = torch.zeros(3, dim, device=device)
    time = torch.ones(1, device=device)
    previous, distance = torch.full((1,), 9.0, device=device), torch.zeros(1, device=device)

    def step(latent):
        distance.add_((torch.sin(3 * time) - torch.sin(3 * previous)).abs())
        previous.copy_(time)
        run = distance > threshold
        residual.copy_(torch.where(run, blocks(latent + torch.sin(3 * time)) - latent, residual))
        distance.mul_(~run)
        latent.add_(residual, alpha=1 / steps)
        return latent.clone()

    def refresh(args, kwargs, k):
        level = 1.0 - k % steps / steps
        time.fill_(level)
        if k % steps == 0:
            args[0].copy_(torch.randn(3, dim))

    return graphsafe.Step(step, (torch.randn(3, dim, device=device),), refresh=refresh)
