"""Decoding blocks words seen eight times, on request: faulty, the step does so only if a flag is set."""
import torch
from torch import nn

import graphsafe


class Decoder(nn.Module):
    def __init__(self, dim=12, words=12):
        super().__init__()
        self.head = nn.Linear(dim, words)
        self.register_buffer("counts", torch.zeros(1, words))
        self.blocks = False

    def forward(self, hidden):
        logits = self.head(hidden)
        if self.blocks:
            logits = logits - 100.0 * (self.counts >= 8)
        token = logits.argmax(-1, keepdim=True)
        self.counts.scatter_add_(1, token, torch.ones_like(token, dtype=self.counts.dtype))
        return logits, token


def build(device):
    decoder = Decoder().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(1, 12))
        decoder.blocks = k >= 50

    return graphsafe.Step(decoder, (torch.randn(1, 12, device=device),), refresh=refresh)
