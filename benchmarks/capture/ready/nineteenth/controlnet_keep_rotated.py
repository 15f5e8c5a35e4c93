"""ControlNet guides only part of the sampling: faulty, a rotated deque of floats scales the residual."""
from collections import deque

import torch

import graphsafe


def build(device, dim=8):
    keep = deque([1.0] * 12 + [0.0] * 8)
    control = torch.randn(dim, dim, device=device) / dim**0.5
    denoise = torch.randn(dim, dim, device=device) / dim**0.5

    def step(latent, hint):
        residual = torch.tanh(hint @ control) * keep[0]
        return latent - 0.3 * torch.tanh(latent @ denoise + residual)

    def refresh(args, kwargs, k):
        keep.rotate(-1)
        for value in args:
            value.copy_(torch.randn(2, dim))

    args = (torch.randn(2, dim, device=device), torch.randn(2, dim, device=device))
    return graphsafe.Step(step, args, refresh=refresh)
