"""Many LoRA adapters in one batch: rows are sorted by adapter, each segment is multiplied with its adapter."""
import itertools

import torch
import torch.nn as nn

import graphsafe

ROWS, WIDTH, RANK, ADAPTERS = 16, 32, 4, 5


class Batch:
    def __init__(self, device):
        self.x = torch.zeros(ROWS, WIDTH, device=device)
        self.segments = []

    def compose(self, owners):
        owners = sorted(owners)
        self.segments, start = [], 0
        for adapter, group in itertools.groupby(owners):
            n = len(list(group))
            self.segments.append((adapter, start, start + n))
            start += n


class MultiLora(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(WIDTH, WIDTH)
        self.a = nn.Parameter(torch.randn(ADAPTERS, WIDTH, RANK) / 6)
        self.b = nn.Parameter(torch.randn(ADAPTERS, RANK, WIDTH) / 2)

    def forward(self, batch):
        out = self.base(batch.x)
        for adapter, start, stop in batch.segments:
            out[start:stop] += batch.x[start:stop] @ self.a[adapter] @ self.b[adapter]
        return out


def build(device):
    layer, batch = MultiLora().to(device).requires_grad_(False), Batch(device)
    owners = [0] * 4 + [1] * 4 + [3] * 8  # long conversations: the same owners for a good while
    batch.compose(owners)

    def refresh(args, kwargs, k):
        batch.x.copy_(torch.randn(ROWS, WIDTH))
        if k == 88:  # the first conversation ends, and a user of adapter 4 takes its row
            owners[0] = 4
            batch.compose(owners)

    return graphsafe.Step(layer, (batch,), {}, refresh=refresh)
