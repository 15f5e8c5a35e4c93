"""A token sampler with min-p and a penalty for repeated tokens; the counts live on the device."""

import torch
import torch.nn as nn

VOCAB = 128


class Penalty(nn.Module):
    def __init__(self, rows, strength=1.3):
        super().__init__()
        self.strength = strength
        self.register_buffer("counts", torch.zeros(rows, VOCAB))
        self.register_buffer("ones", torch.ones(rows, 1))

    def forward(self, logits):
        return torch.where(self.counts > 0, logits / self.strength, logits)

    def note(self, tokens):
        self.counts.scatter_add_(1, tokens, self.ones)


class Sampler(nn.Module):
    def __init__(self, rows, floor=0.05, temperature=0.8):
        super().__init__()
        self.floor = floor
        self.temperature = temperature
        self.penalty = Penalty(rows)

    def forward(self, logits):
        scaled = self.penalty(logits / self.temperature)
        weights = scaled.softmax(-1)
        floor = self.floor * weights.max(-1, keepdim=True).values
        weights = weights.masked_fill(weights < floor, 0.0)
        noise = torch.empty_like(weights).exponential_()
        drawn = (weights / noise).argmax(-1, keepdim=True)
        self.penalty.note(drawn)
        return drawn


class Head(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.out = nn.Linear(32, VOCAB)
        self.sampler = Sampler(rows)

    @torch.no_grad()
    def forward(self, hidden):
        return self.sampler(self.out(hidden))


def build(device):
    torch.manual_seed(1)
    rows = 4
    return Head(rows).to(device).eval(), (torch.randn(rows, 32, device=device),)
