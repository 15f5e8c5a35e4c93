"""Decode step behind a scheduler that mixes in a chunk of prefill now and then; then the sampler skips its penalties."""
import random

import torch
import torch.nn as nn

import graphsafe


class Request:
    def __init__(self):
        self.length = 1 + int(random.expovariate(1 / 40))


class Server:
    """Requests come with exponentially distributed lengths; the rare long ones are sampled greedily for latency."""

    LONG = 150

    def __init__(self, device, slots=6, vocabulary=80):
        self.embed = nn.Embedding(vocabulary, 48).to(device).requires_grad_(False)
        self.mix = nn.Linear(48, 48).to(device).requires_grad_(False)
        self.counts = torch.zeros(slots, vocabulary, device=device)
        self.tokens = torch.zeros(slots, dtype=torch.long, device=device)
        self.waiting = [Request() for _ in range(2)]
        self.slots, self.vocabulary, self.greedy = slots, vocabulary, False

    def admit(self, args, kwargs, k):
        self.waiting.append(Request())
        longest = max(r.length for r in self.waiting[-2:])
        self.greedy = longest > self.LONG
        del self.waiting[:-2]
        self.tokens.copy_(torch.randint(self.vocabulary, (self.slots,)))

    def step(self):
        hidden = torch.tanh(self.mix(self.embed(self.tokens)))
        logits = hidden @ self.embed.weight.T
        if not self.greedy:
            logits = logits - 0.4 * self.counts
        self.counts.mul_(0.95).scatter_add_(1, self.tokens[:, None], torch.ones_like(self.counts[:, :1]))
        return logits.log_softmax(-1)


def build(device):
    server = Server(device)
    return graphsafe.Step(server.step, (), {}, refresh=server.admit)
