"""Pooled embeddings of a keyed jagged batch: faulty, lengths per key are cached on the host until the next batch."""
import torch

import graphsafe

KEYS, ROWS, CAPACITY = 3, 4, 48


class JaggedBatch:
    __slots__ = ("_per_key", "lengths", "values")

    def __init__(self, device):
        self.values = torch.zeros(CAPACITY, dtype=torch.long, device=device)
        self.lengths = torch.full((KEYS, ROWS), 2, device=device)
        self._per_key = None

    def load(self, values, lengths):
        self.values.copy_(values)
        self.lengths.copy_(lengths)
        self._per_key = None

    def length_per_key(self):
        if self._per_key is None:
            self._per_key = self.lengths.sum(-1).tolist()
        return self._per_key

    def pool(self, rows):
        used = sum(self.length_per_key())
        return torch.stack([part.sum(0) for part in rows[:used].split(self.length_per_key())])


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
