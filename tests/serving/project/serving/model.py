from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import PagedAttention
from .kv_cache import PagedCache


class Layer(nn.Module):
    def __init__(self, layer: int, hidden: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.attention = PagedAttention(layer, hidden, heads)
        self.up = nn.Linear(hidden, 2 * hidden)
        self.down = nn.Linear(2 * hidden, hidden)

    def forward(self, hidden: Tensor, cache: PagedCache, slots: Tensor, table: Tensor, lengths: Tensor) -> Tensor:
        hidden = hidden + self.attention(self.norm(hidden), cache, slots, table, lengths)
        return hidden + self.down(F.silu(self.up(hidden)))


class Model(nn.Module):
    def __init__(self, vocabulary: int, hidden: int, heads: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.layers = nn.ModuleList(Layer(number, hidden, heads) for number in range(layers))
        self.head = nn.Linear(hidden, vocabulary, bias=False)
        self.steps = 0

    @torch.no_grad()
    def forward(self, ids: Tensor, cache: PagedCache, slots: Tensor, table: Tensor, lengths: Tensor) -> Tensor:
        hidden = self.embedding(ids)
        for layer in self.layers:
            hidden = layer(hidden, cache, slots, table, lengths)
        self.steps += 1  # guilty: GS702 captured
        return self.head(hidden) / (1 + 1e-3 * self.steps)
