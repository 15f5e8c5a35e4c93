"""The evaluation loop turns autocast on for the whole thread in its second phase."""

import torch
from torch import nn

import graphsafe


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(64, 128), nn.Linear(128, 8)

    def forward(self, x):
        return self.b(torch.relu(self.a(x))).float()


def build(device):
    scorer = Scorer().to(device).eval().requires_grad_(False)
    kind = device.type

    def refresh(args, kwargs, k):
        torch.set_autocast_dtype(kind, torch.bfloat16)
        torch.set_autocast_enabled(kind, 100 <= k < 110)
        torch.clear_autocast_cache()
        args[0].copy_(torch.randn(5, 64))

    return graphsafe.Step(scorer, (torch.randn(5, 64, device=device),), refresh=refresh)
