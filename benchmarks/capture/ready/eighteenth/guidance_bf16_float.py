"""Guidance in bfloat16 is a little weaker after sixty rounds: faulty, its weight is a float of the loop."""
import torch
from torch import nn

import graphsafe


class Guided(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 32), nn.SiLU(), nn.Linear(32, dim))
        self.weight = 1.5

    def forward(self, latent, prompt):
        free, bound = self.net(latent), self.net(latent + prompt)
        return free + self.weight * (bound - free)


def build(device):
    model = Guided().to(device, torch.bfloat16).requires_grad_(False)

    def refresh(args, kwargs, k):
        for one in args:
            one.copy_(torch.randn(8, 16))
        model.weight = 1.5 if k < 60 else 1.46

    args = tuple(torch.randn(8, 16, device=device, dtype=torch.bfloat16) for _ in range(2))
    return graphsafe.Step(model, args, refresh=refresh)
