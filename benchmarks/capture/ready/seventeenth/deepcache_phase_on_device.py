"""A denoiser that keeps deep features for two of three steps, as in DeepCache: sound, the phase is on the device."""
import torch

import graphsafe


class Denoiser(torch.nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.shallow = torch.nn.Linear(dim, dim)
        self.deep = torch.nn.Sequential(torch.nn.Linear(dim, 16), torch.nn.SiLU(), torch.nn.Linear(16, dim))
        self.out = torch.nn.Linear(2 * dim, dim)
        self.register_buffer("features", torch.zeros(4, dim))
        self.register_buffer("phase", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        skip = torch.nn.functional.silu(self.shallow(x))
        self.features.copy_(torch.where(self.phase == 0, self.deep(skip), self.features))
        self.phase.add_(1).remainder_(3)
        return self.out(torch.cat([skip, self.features], -1))


def build(device):
    model = Denoiser().to(device)

    @torch.no_grad()
    def step(latent):
        noise = model(latent)
        return latent - 0.1 * noise

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 8) if k % 15 == 0 else 0.9 * args[0] + 0.3 * torch.randn(4, 8).to(device))

    return graphsafe.Step(step, (torch.randn(4, 8, device=device),), refresh=refresh)
