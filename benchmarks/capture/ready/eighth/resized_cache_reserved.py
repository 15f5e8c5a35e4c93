"""A prefix cache that grows by `resize_` within memory that it reserved at the start, so that nothing moves."""
import torch
from torch import nn

import graphsafe


class PrefixCache:
    def __init__(self, rows, width, device):
        self.width, self.most = width, 8 * rows
        self.rows = torch.zeros(self.most, width, device=device)
        self.rows.resize_(rows, width)  # the storage keeps its size
        self.used = 4

    def append(self, row):
        if self.used == len(self.rows) and 2 * self.used <= self.most:
            self.rows.resize_(2 * len(self.rows), self.width)
        at = self.used if self.used < len(self.rows) else len(self.rows) - 1
        self.rows[at].copy_(row)
        self.rows[self.used % 4].copy_(row)
        self.used = min(self.used + 1, self.most - 1)


class Reader(nn.Module):
    def __init__(self, width, cache):
        super().__init__()
        self.q = nn.Linear(width, width)
        self.cache = cache

    def forward(self, x):
        keys = self.cache.rows[:4]
        weights = torch.softmax(self.q(x) @ keys.t(), dim=-1)
        return weights @ keys


def build(device, batch=4, width=16, capacity=12):
    cache = PrefixCache(capacity, width, device)
    model = Reader(width, cache).to(device).eval().requires_grad_(False)
    x = torch.randn(batch, width).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, width))
        cache.append(torch.randn(width))

    return graphsafe.Step(model, (x,), refresh=refresh)
