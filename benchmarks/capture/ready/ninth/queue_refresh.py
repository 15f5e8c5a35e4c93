"""A sampler with a control channel: operators push a new temperature into a queue that is drained between steps."""
import queue

import torch
from torch import nn

import graphsafe


class Sampler(nn.Module):
    def __init__(self, width, vocabulary):
        super().__init__()
        self.out = nn.Linear(width, vocabulary)
        self.register_buffer("temperature", torch.full((), 0.8))
        self.inbox, self.applied = queue.SimpleQueue(), 0

    def drain(self):
        while not self.inbox.empty():
            name, value = self.inbox.get_nowait()
            getattr(self, name).fill_(value)
            self.applied += 1

    def forward(self, hidden):
        return torch.softmax(self.out(hidden) / self.temperature, dim=-1)


def build(device, batch=4, width=16, vocabulary=32):
    sampler = Sampler(width, vocabulary).to(device).eval().requires_grad_(False)
    hidden = torch.randn(batch, width).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, width))
        if k % 10 == 9:
            sampler.inbox.put(("temperature", 0.5 + 0.1 * (k // 10 % 4)))
        sampler.drain()

    return graphsafe.Step(sampler, (hidden,), refresh=refresh)
