"""Decoding refuses a full cache and cools down after a minute: sound, the loop reads the clock and fills a tensor."""
import time

import torch
from torch import nn

import graphsafe


class Decoder(nn.Module):
    def __init__(self, length=64, dim=16):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.register_buffer("keys", torch.zeros(length, dim))
        self.register_buffer("position", torch.zeros(1, dtype=torch.long))
        self.register_buffer("sharpness", torch.ones(()))
        self.started = time.monotonic()

    def forward(self, hidden):
        self.keys.index_copy_(0, self.position, self.proj(hidden))
        self.position.add_(1)
        return torch.softmax(hidden @ self.keys.T * self.sharpness, -1) @ self.keys


def build(device):
    decoder = Decoder().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        if k % 60 == 0:
            decoder.position.zero_()
        args[0].copy_(torch.randn(1, 16))
        decoder.sharpness.fill_(1.0 if time.monotonic() - decoder.started < 60 else 0.5)

    return graphsafe.Step(decoder, (torch.randn(1, 16, device=device),), refresh=refresh)
