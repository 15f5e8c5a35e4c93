"""A write-behind prefix store: decode steps write to the live cache, and the engine flushes it to the shared snapshot on a schedule."""
import torch
from torch import nn

import graphsafe


class PrefixStore:
    FLUSH_EVERY = 12

    def __init__(self, slots, width, device):
        self.live = torch.zeros(slots, width, device=device)
        self.snapshot = torch.zeros(slots, width, device=device)
        self.slot = torch.zeros(1, dtype=torch.int64, device=device)
        self.dirty = False

    def write(self, row):
        self.live.index_copy_(0, self.slot, row)
        self.slot.add_(1).remainder_(len(self.live))
        self.dirty = True

    def maybe_flush(self, k):
        if k % self.FLUSH_EVERY == self.FLUSH_EVERY - 1:
            self.snapshot.copy_(self.live)
            self.dirty = False


class Decoder(nn.Module):
    def __init__(self, store, width, device):
        super().__init__()
        self.store = store
        self.query = nn.Linear(width, width).to(device)

    def forward(self, x):
        query = self.query(x)
        self.store.write(query.mean(0, keepdim=True))
        shared = torch.softmax(query @ self.store.snapshot.t(), dim=-1) @ self.store.snapshot
        return query + shared


def build(device, batch=4, width=16, slots=24):
    store = PrefixStore(slots, width, device)
    model = Decoder(store, width, device).eval().requires_grad_(False)
    x = torch.randn(batch, width).to(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, width))
        store.maybe_flush(k)

    return graphsafe.Step(model, (x,), refresh=refresh)
