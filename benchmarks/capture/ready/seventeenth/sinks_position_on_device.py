"""StreamingLLM cache, attention sinks and a rolling window: sound, a device position picks the slot to write."""
import torch

import graphsafe


class SinkCache:
    __slots__ = ("positions", "rows", "sinks", "window")

    def __init__(self, device, sinks=4, window=12, dim=8):
        self.rows = torch.zeros(sinks + window, dim, device=device)
        self.sinks = sinks
        self.window = window
        self.positions = torch.zeros(1, dtype=torch.long, device=device)

    def write(self, row):
        rolled = self.sinks + (self.positions - self.sinks) % self.window
        slot = torch.where(self.positions < self.sinks, self.positions, rolled)
        self.rows.index_copy_(0, slot, row.unsqueeze(0))
        self.positions.add_(1)
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
