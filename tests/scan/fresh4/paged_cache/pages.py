from __future__ import annotations

import torch


class Table:
    """Logical to physical pages of each sequence, and how many tokens it holds."""

    def __init__(self, rows: int, width: int, page: int, device: torch.device):
        self.page = page
        self.physical = torch.arange(rows * width, device=device).view(rows, width)
        self.length = torch.zeros(rows, dtype=torch.long, device=device)

    def __len__(self) -> int:
        return self.physical.shape[0]

    def __getitem__(self, position: torch.Tensor) -> torch.Tensor:
        logical = position.div(self.page, rounding_mode="floor").remainder(self.physical.shape[1])
        physical = self.physical.gather(1, logical.unsqueeze(1)).squeeze(1)
        return physical * self.page + position.remainder(self.page)

    def advance(self) -> torch.Tensor:
        slot = self[self.length]
        self.length.add_(1)
        return slot


class Pages:
    def __init__(self, count: int, page: int, heads: int, dim: int, device: torch.device):
        self.k = torch.zeros(count * page, heads, dim, device=device)
        self.v = torch.zeros(count * page, heads, dim, device=device)
        self.touched = torch.zeros(count, dtype=torch.int32, device=device)
        self.page = page

    def write(self, slot: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
        self.k.index_copy_(0, slot, k)
        self.v.index_copy_(0, slot, v)
        self.touched.index_fill_(0, slot.div(self.page, rounding_mode="floor"), 1)

    def read(self, slots: torch.Tensor):
        return self.k[slots], self.v[slots]
