"""The paged cache, as large as all rows ever need; each row holds the same blocks for good."""

from __future__ import annotations

from dataclasses import dataclass

import torch

BLOCK = 8


@dataclass
class PagedCache:
    keys: torch.Tensor
    values: torch.Tensor
    tables: torch.Tensor

    @classmethod
    def make(cls, rows: int, columns: int, width: int, device: torch.device) -> PagedCache:
        shape = (rows * columns, BLOCK, width)
        tables = torch.arange(rows * columns, device=device).view(rows, columns)
        return cls(torch.zeros(shape, device=device), torch.zeros(shape, device=device), tables)
