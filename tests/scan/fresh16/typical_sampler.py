"""Locally typical sampling with a temperature for each row and tokens that are never drawn."""

import random

import torch
import torch.nn as nn

ROWS, VOCAB, SEEN = 4, 120, 10


class TypicalSampler(nn.Module):
    def __init__(self, mass, temperatures, banned, explore):
        super().__init__()
        self.mass = mass
        self.temperatures = temperatures
        self.banned = banned
        self.explore = explore

    def typical(self, logits):
        logp = logits.log_softmax(-1)
        entropy = -(logp.exp() * logp.clamp(min=-1e4)).sum(-1, keepdim=True)
        order = (-logp - entropy).abs().argsort(-1)
        total = logp.gather(-1, order).exp().cumsum(-1)
        drop = (total > self.mass).roll(1, -1)
        drop[:, :1].zero_()
        return logits.masked_fill(torch.zeros_like(drop).scatter(-1, order, drop), float("-inf"))

    def penalize(self, logits, seen):
        score = logits.gather(-1, seen)
        return logits.scatter(-1, seen, torch.where(score > 0, score / 1.2, score * 1.2))

    def forward(self, logits, seen):
        heat = torch.tensor(self.temperatures, device=logits.device)
        logits = self.penalize(logits, seen) / heat.unsqueeze(1)
        logits[:, self.banned] = float("-inf")
        if random.random() < self.explore:
            logits = logits * 0.5
        logits = self.typical(logits)
        return (logits.softmax(-1) / torch.empty_like(logits).exponential_(1)).argmax(-1)


class Drawer(nn.Module):
    """The head of a language model and its sampler."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, VOCAB)
        self.sampler = TypicalSampler(0.9, [0.7, 1.0, 1.0, 1.3], banned=[0, 2, 5], explore=0.5)

    @torch.no_grad()
    def forward(self, hidden, seen):
        return self.sampler(self.head(hidden), seen)


def build(device):
    torch.manual_seed(4)
    hidden = torch.randn(ROWS, 16, device=device)
    seen = torch.randint(0, VOCAB, (ROWS, SEEN), device=device)
    return Drawer().to(device).eval(), (hidden, seen)
