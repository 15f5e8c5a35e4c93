"""Draft and target models, which differ in width only."""

import torch
import torch.nn as nn

VOCAB, LENGTH = 96, 256


class TinyLM(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, width)
        self.places = nn.Embedding(LENGTH, width)
        self.mix = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))
        self.head = nn.Linear(width, VOCAB, bias=False)

    def forward(self, tokens, positions):
        hidden = self.tokens(tokens) + self.places(positions)
        return self.head(hidden + self.mix(hidden))


def pair(device):
    torch.manual_seed(11)
    draft, target = TinyLM(16), TinyLM(64)
    return draft.to(device).requires_grad_(False), target.to(device).requires_grad_(False)
