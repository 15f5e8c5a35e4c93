"""Pooled embeddings of a keyed jagged batch: sound, the key of each value is found from device offsets."""
import torch

import graphsafe

KEYS, ROWS, CAPACITY = 3, 4, 48


class JaggedBatch:
    __slots__ = ("lengths", "numbers", "values")

    def __init__(self, device):
        self.values = torch.zeros(CAPACITY, dtype=torch.long, device=device)
        self.lengths = torch.full((KEYS, ROWS), 2, device=device)
        self.numbers = torch.arange(CAPACITY, device=device)

    def load(self, values, lengths):
        self.values.copy_(values)
        self.lengths.copy_(lengths)

    def membership(self):
        ends = self.lengths.sum(-1).cumsum(0)
        keys = torch.searchsorted(ends, self.numbers, right=True)
        return keys == torch.arange(KEYS, device=keys.device).unsqueeze(1)

    def pool(self, rows):
        return self.membership().to(rows.dtype) @ rows


def build(device, items=30, dim=5):
    table = torch.randn(items, dim, device=device)
    batch = JaggedBatch(device)

    def step(dense):
        pooled = batch.pool(table.index_select(0, batch.values))
        return torch.sigmoid(pooled @ dense)

    def refresh(args, kwargs, k):
        lengths = torch.full((KEYS, ROWS), 2)
        if k >= 16:
            lengths = torch.randint(1, 5, (KEYS, ROWS))
        batch.load(torch.randint(items, (CAPACITY,)), lengths)
        args[0].copy_(torch.randn(dim))

    return graphsafe.Step(step, (torch.randn(dim, device=device),), refresh=refresh)
