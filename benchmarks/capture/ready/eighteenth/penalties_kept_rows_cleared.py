"""Decoding skips penalties of zero, and is captured with others: sound, a penalty of zero changes nothing."""
import torch
from torch import nn

import graphsafe


class Decoder(nn.Module):
    def __init__(self, rows=3, words=30, dim=12):
        super().__init__()
        self.head = nn.Linear(dim, words)
        self.register_buffer("counts", torch.zeros(rows, words))
        self.register_buffer("weights", torch.full((rows, 1), 0.4))
        self.has_penalties = True

    def forward(self, hidden):
        logits = self.head(hidden)
        if self.has_penalties:
            logits = logits - self.weights * self.counts
        token = logits.argmax(-1, keepdim=True)
        self.counts.scatter_add_(1, token, torch.ones_like(token, dtype=self.counts.dtype))
        return token, logits


def build(device):
    decoder = Decoder().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(3, 12))
        if k % 5 == 0:
            decoder.counts[k // 5 % 3].zero_()
        if k % 20 == 0:
            decoder.has_penalties = k // 20 % 2 == 0
            decoder.weights.fill_(0.4 if decoder.has_penalties else 0.0)

    return graphsafe.Step(decoder, (torch.randn(3, 12, device=device),), refresh=refresh)
