"""ControlNet guides only part of the sampling: sound, the head of a rotated deque is filled into a tensor."""
from collections import deque

import torch

import graphsafe


def build(device, dim=8):
    keep = deque([1.0] * 12 + [0.0] * 8)
    control = torch.randn(dim, dim, device=device) / dim**0.5
    denoise = torch.randn(dim, dim, device=device) / dim**0.5
    keep_now = torch.full((), keep[0], device=device)

    def step(latent, hint):
        residual = torch.tanh(hint @ control) * keep_now
        return latent - 0.3 * torch.tanh(latent @ denoise + residual)

    def refresh(args, kwargs, k):
        keep.rotate(-1)
        keep_now.fill_(keep[0])
        for value in args:
            value.copy_(torch.randn(2, dim))

    args = (torch.randn(2, dim, device=device), torch.randn(2, dim, device=device))
    return graphsafe.Step(step, args, refresh=refresh)
