from __future__ import annotations

import torch
from torch import Tensor


class PagedCache:
    """Keys and values of all layers in blocks of `block_size` tokens."""

    def __init__(self, layers: int, blocks: int, block_size: int, heads: int, dim: int, device: torch.device) -> None:
        shape = (layers, blocks * block_size, heads, dim)
        self.keys = torch.zeros(shape, device=device)
        self.values = torch.zeros(shape, device=device)
        self.block_size = block_size

    def write(self, layer: int, key: Tensor, value: Tensor, slots: Tensor) -> None:
        """`slots`: int64[tokens], negative for padding."""
        kept = slots >= 0
        self.keys[layer][slots[kept]] = key[kept]  # guilty: GS202 captured
        self.values[layer].index_copy_(0, slots.clamp(min=0), value)

    def read(self, layer: int, table: Tensor) -> tuple[Tensor, Tensor]:
        """`table`: int64[batch, blocks]; gives keys and values, [batch, blocks * block_size, heads, dim]."""
        within = torch.arange(self.block_size, device=table.device)
        slots = (table[:, :, None] * self.block_size + within).flatten(1)
        return self.keys[layer][slots], self.values[layer][slots]
