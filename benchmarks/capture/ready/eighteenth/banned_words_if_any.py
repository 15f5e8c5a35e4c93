"""Greedy decoding bans words for a request that asks for it: faulty, the step bans them only if any are asked for."""
import torch
from torch import nn

import graphsafe


class Decoder(nn.Module):
    def __init__(self, dim=16, words=512, rows=2):
        super().__init__()
        self.head = nn.Linear(dim, words)
        self.register_buffer("banned", torch.zeros(rows, words, dtype=torch.bool))
        self.any_banned = False

    def forward(self, hidden):
        logits = self.head(hidden)
        if self.any_banned:
            logits = logits.masked_fill(self.banned, float("-inf"))
        return logits.argmax(-1)


def build(device):
    decoder = Decoder().to(device).requires_grad_(False)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, 16))
        if k == 80:
            decoder.banned[0, 17:20] = True
            decoder.any_banned = True
        if k == 96:
            decoder.banned[0] = False
            decoder.any_banned = False

    return graphsafe.Step(decoder, (torch.randn(2, 16, device=device),), refresh=refresh)
