"""A streaming recogniser; its state is written in place."""

import torch
from torch import nn

from store import StateStore


class GatedCell(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.update = nn.Linear(2 * width, width)
        self.propose = nn.Linear(2 * width, width)

    def forward(self, x, h):
        joined = torch.cat([x, h], dim=-1)
        gate = torch.sigmoid(self.update(joined))
        return gate * h + (1 - gate) * torch.tanh(self.propose(joined))


class Streamer:
    def __init__(self, cells, classes, store, width, device):
        self.cells = cells
        self.head = nn.Linear(width, classes).to(device)
        self.store = store
        self.frames = 0
        for name in cells:
            store.add(name)

    @torch.no_grad()
    def feed(self, chunk):
        self.frames += 1
        x = chunk
        for name, cell in self.cells.items():
            x = cell(x, self.store[name])
            self.store.write(name, x)
        return self.head(x).log_softmax(dim=-1)

    def status(self):
        return {"frames": self.frames, "layers": len(self.cells)}


def build(device):
    width, batch = 8, 3
    cells = nn.ModuleDict({"low": GatedCell(width), "high": GatedCell(width)}).to(device)
    store = StateStore(batch, width, device)
    streamer = Streamer(cells.eval(), 5, store, width, device)
    return streamer.feed, (torch.randn(batch, width, device=device),)
