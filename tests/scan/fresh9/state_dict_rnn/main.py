"""A streaming recogniser that keeps its recurrent state by layer name."""

import torch
from torch import nn


class GatedCell(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.update = nn.Linear(2 * width, width)
        self.propose = nn.Linear(2 * width, width)

    def forward(self, x, h):
        joined = torch.cat([x, h], dim=-1)
        gate = torch.sigmoid(self.update(joined))
        return gate * h + (1 - gate) * torch.tanh(self.propose(joined))


class StateStore:
    def __init__(self):
        self._items = {}

    def put(self, key, value):
        self._items[key] = value

    def get(self, key):
        return self._items[key]

    def keys(self):
        return list(self._items)


class Streamer:
    def __init__(self, cells, classes, batch, width, device):
        self.cells = cells
        self.head = nn.Linear(width, classes).to(device).requires_grad_(False)
        self.store = StateStore()
        for name in cells:
            self.store.put(name, torch.zeros(batch, width, device=device))

    @torch.no_grad()
    def feed(self, chunk):
        x = chunk
        for name, cell in self.cells.items():
            x = cell(x, self.store.get(name))
            self.store.put(name, x)
        return self.head(x).log_softmax(dim=-1)


def build(device):
    width, batch = 8, 3
    cells = nn.ModuleDict({"low": GatedCell(width), "high": GatedCell(width)}).to(device)
    streamer = Streamer(cells.eval(), 5, batch, width, device)
    return streamer.feed, (torch.randn(batch, width, device=device),)
