"""A quantising encoder dithers, except while the test harness asks for deterministic algorithms."""

import torch

import graphsafe


class Encoder(torch.nn.Module):
    def __init__(self, levels=16):
        super().__init__()
        self.proj = torch.nn.Linear(20, 12)
        self.levels = levels

    def forward(self, x):
        y = torch.sigmoid(self.proj(x)) * self.levels
        if torch.are_deterministic_algorithms_enabled():
            return y.round()
        return torch.floor(y + torch.rand_like(y))


def build(device):
    encoder = Encoder().to(device).eval().requires_grad_(False)

    def refresh(args, kwargs, k):
        torch.use_deterministic_algorithms(k % 50 >= 45, warn_only=True)  # the harness's probe of five steps
        args[0].copy_(torch.randn(6, 20))

    return graphsafe.Step(encoder, (torch.randn(6, 20, device=device),), refresh=refresh)
