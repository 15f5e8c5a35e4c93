"""Decoding refuses a full cache and cools down after a minute: faulty, the step reads the clock on the host."""
import time

import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, length=64, dim=16):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.register_buffer("keys", torch.zeros(length, dim))
        self.register_buffer("position", torch.zeros(1, dtype=torch.long))
        self.tokens = 0
        self.started = time.monotonic()

    def forward(self, hidden):
        if self.tokens >= self.keys.shape[0]:
            raise RuntimeError("the context is full: start a new request")
        self.tokens += 1
        self.keys.index_copy_(0, self.position, self.proj(hidden))
        self.position.add_(1)
        sharpness = 1.0 if time.monotonic() - self.started < 60 else 0.5
        return torch.softmax(hidden @ self.keys.T * sharpness, -1) @ self.keys


def build(device):
    return Decoder().to(device).requires_grad_(False), (torch.randn(1, 16, device=device),)
