"""Sampler with per-request seeds: rows whose request gave a seed draw their noise from their own generator."""
import torch

import graphsafe


class Request:
    def __init__(self, temperature, seed=None):
        self.temperature, self.seed = temperature, seed


class Sampler:
    def __init__(self, device, rows, vocab):
        self.noise = torch.ones(rows, vocab, device=device)
        self.generators = {}

    def forward(self, logits, temperature):
        probs = torch.softmax(logits / temperature.unsqueeze(1), -1)
        if len(self.generators) != len(probs):
            self.noise.exponential_()
        for row, generator in self.generators.items():
            self.noise[row].exponential_(generator=generator)
        return (probs / self.noise.clamp_min(1e-10)).argmax(-1), probs


class Batch:
    def __init__(self, device, rows=4, vocab=24):
        self.device = device
        self.head = torch.randn(12, vocab, device=device)
        self.sampler = Sampler(device, rows, vocab)
        self.temperature = torch.ones(rows, device=device)

    def admit(self, row, request):
        self.temperature[row].fill_(request.temperature)
        self.sampler.generators.pop(row, None)
        if request.seed is not None:
            self.sampler.generators[row] = torch.Generator(self.device).manual_seed(request.seed)

    def step(self, hidden):
        return self.sampler.forward(hidden @ self.head, self.temperature)[0]


def build(device):
    batch = Batch(device)

    def refresh(args, kwargs, k):
        if k % 10 == 0:
            batch.admit(k // 10 % 4, Request(0.5 + k % 30 / 20, seed=7 if k == 80 else None))
        args[0].copy_(torch.randn(4, 12))

    return graphsafe.Step(batch.step, (torch.randn(4, 12, device=device),), refresh=refresh)
