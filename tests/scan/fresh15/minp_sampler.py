"""A token sampler with min-p, a penalty for repeated tokens and a generator of its own."""

import torch
import torch.nn as nn

VOCAB = 128


class Penalty(nn.Module):
    def __init__(self, rows, strength=1.3):
        super().__init__()
        self.strength = strength
        self.register_buffer("counts", torch.zeros(rows, VOCAB))

    def forward(self, logits):
        rows, tokens = torch.where(self.counts > 0)
        logits[rows, tokens] /= self.strength
        return logits

    def note(self, tokens):
        for row, token in enumerate(tokens.flatten().tolist()):
            self.counts[row, token] += 1


class Sampler(nn.Module):
    def __init__(self, rows, device, floor=0.05, temperature=0.8):
        super().__init__()
        self.floor = floor
        self.temperature = temperature
        self.penalty = Penalty(rows)
        self.source = torch.Generator(device=device).manual_seed(11)

    def forward(self, logits):
        scaled = self.penalty(logits / self.temperature)
        weights = scaled.softmax(-1)
        floor = self.floor * weights.max(-1, keepdim=True).values
        weights = weights.masked_fill(weights < floor, 0.0)
        noise = torch.empty_like(weights).exponential_(generator=self.source)
        drawn = (weights / noise).argmax(-1, keepdim=True)
        self.penalty.note(drawn)
        return drawn


class Head(nn.Module):
    def __init__(self, rows, device):
        super().__init__()
        self.out = nn.Linear(32, VOCAB)
        self.sampler = Sampler(rows, device)

    @torch.no_grad()
    def forward(self, hidden):
        return self.sampler(self.out(hidden))


def build(device):
    torch.manual_seed(1)
    rows = 4
    return Head(rows, device).to(device).eval(), (torch.randn(rows, 32, device=device),)
