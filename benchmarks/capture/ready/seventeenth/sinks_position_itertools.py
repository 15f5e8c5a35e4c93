"""StreamingLLM cache, attention sinks and a rolling window: faulty, an itertools counter picks the slot to write."""
import itertools

import torch

import graphsafe


class SinkCache:
    __slots__ = ("positions", "rows", "sinks", "window")

    def __init__(self, device, sinks=4, window=12, dim=8):
        self.rows = torch.zeros(sinks + window, dim, device=device)
        self.sinks = sinks
        self.window = window
        self.positions = itertools.count()

    def write(self, row):
        position = next(self.positions)
        slot = position if position < self.sinks else self.sinks + (position - self.sinks) % self.window
        self.rows[slot] = row
        return self.rows


def build(device, dim=8):
    cache = SinkCache(device, dim=dim)
    key = torch.nn.Linear(dim, dim, bias=False, device=device)

    @torch.no_grad()
    def step(hidden):
        rows = cache.write(key(hidden))
        return hidden + torch.softmax(rows @ hidden / dim**0.5, 0) @ rows

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(dim))

    return graphsafe.Step(step, (torch.randn(dim, device=device),), refresh=refresh)
