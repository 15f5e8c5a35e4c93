from __future__ import annotations

import torch
from torch import Tensor, nn

from .kv_cache import PagedCache


class PagedAttention(nn.Module):
    def __init__(self, layer: int, hidden: int, heads: int) -> None:
        super().__init__()
        self.layer, self.heads, self.dim = layer, heads, hidden // heads
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.out = nn.Linear(hidden, hidden, bias=False)

    def forward(self, hidden: Tensor, cache: PagedCache, slots: Tensor, table: Tensor, lengths: Tensor) -> Tensor:
        query, key, value = self.qkv(hidden).view(-1, 3, self.heads, self.dim).unbind(1)
        cache.write(self.layer, key, value, slots)
        keys, values = cache.read(self.layer, table)
        longest = int(lengths.max())  # guilty: GS101 captured
        keys, values = keys[:, :longest], values[:, :longest]
        scores = torch.einsum("bhd,bkhd->bhk", query, keys) / self.dim**0.5
        seen = torch.arange(longest, device=hidden.device) < lengths[:, None]
        scores = scores.masked_fill(~seen[:, None], float("-inf"))
        return self.out(torch.einsum("bhk,bkhd->bhd", scores.softmax(-1), values).flatten(1))
