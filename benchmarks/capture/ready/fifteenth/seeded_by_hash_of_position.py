"""Sampler with per-request seeds: noise is a hash of the request's seed and position, worked out on the device."""
import torch

import graphsafe


class Sampler:
    """Counter-based noise: no generator, so rows can be batched in any order."""

    def __init__(self, device, rows, vocab):
        self.seeds = torch.arange(rows, device=device) * 977
        self.positions = torch.zeros(rows, dtype=torch.long, device=device)
        self.columns = torch.arange(vocab, device=device)

    def uniform(self):
        x = (self.seeds * 7919 + self.positions * 104729).unsqueeze(1) + self.columns * 1299709
        x = (x ^ (x >> 7)) * 2654435761 % 4294967296
        x = (x ^ (x >> 13)) * 40503 % 4294967296
        return (x.double() + 0.5) / 4294967296

    def forward(self, logits, temperature):
        gumbel = -torch.log(-torch.log(self.uniform()))
        chosen = (logits.double() / temperature.unsqueeze(1) + gumbel).argmax(-1)
        self.positions.add_(1)
        return chosen


class Batch:
    def __init__(self, device, rows=4, vocab=24):
        self.head = torch.randn(12, vocab, device=device)
        self.sampler = Sampler(device, rows, vocab)
        self.temperature = torch.ones(rows, device=device)
        self.seeds = {}

    def admit(self, row, temperature, seed):
        self.seeds[row] = seed
        self.temperature[row].fill_(temperature)
        self.sampler.seeds[row].fill_(seed)
        self.sampler.positions[row].zero_()

    def step(self, hidden):
        return self.sampler.forward(hidden @ self.head, self.temperature)


def build(device):
    batch = Batch(device)

    def refresh(args, kwargs, k):
        if k % 10 == 0:
            batch.admit(k // 10 % 4, 0.5 + k % 30 / 20, k * 31)
        args[0].copy_(torch.randn(4, 12))

    return graphsafe.Step(batch.step, (torch.randn(4, 12, device=device),), refresh=refresh)
