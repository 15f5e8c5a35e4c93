from functools import reduce

import torch
from torch import nn

from . import ops
from .graph import EdgeView, NormCache


class Propagate(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.message = nn.Linear(dim, dim)
        self.gate = nn.Linear(2 * dim, dim)

    def forward(self, h, view, norm):
        sent = self.message(h)[view.src] * norm
        own = ops.broadcast_runs(h, view.counts)
        gated = torch.sigmoid(self.gate(torch.cat((sent, own), -1))) * sent
        return h + ops.scatter_sum(gated, view.dst, view.rows)


class NodeScorer(nn.Module):
    def __init__(self, inputs: int, dim: int, rows: int, depth: int = 2):
        super().__init__()
        self.rows = rows
        self.encode = nn.Linear(inputs, dim)
        self.layers = nn.ModuleList(Propagate(dim) for _ in range(depth))
        self.score = nn.Linear(dim, 1)
        self.norms = NormCache()

    def forward(self, x, edge_index):
        view = EdgeView(edge_index, self.rows)
        norm = self.norms.lookup(edge_index, view)
        h = self.encode(x)
        peaks = []
        for layer in self.layers:
            h = layer(h, view, norm)
            peaks.append(h.abs().amax())
        h = h / reduce(max, peaks)
        return self.score(h).squeeze(-1) * view.temperature
