from __future__ import annotations

import math

import torch
from torch import nn

from .pages import Pages, Table


class PagedAttention(nn.Module):
    def __init__(self, table: Table, pages: Pages, heads: int, dim: int):
        super().__init__()
        self.table, self.pages = table, pages
        self.heads, self.dim = heads, dim
        self.qkv = nn.Linear(heads * dim, 3 * heads * dim)
        rows, width = table.physical.shape
        offsets = torch.arange(width * table.page, device=table.physical.device)
        self.register_buffer("offsets", offsets.expand(rows, -1).contiguous())

    def _slots(self) -> torch.Tensor:
        page = self.table.page
        inside = self.offsets.remainder(page)
        logical = self.offsets.div(page, rounding_mode="floor")
        return self.table.physical.gather(1, logical) * page + inside

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = len(self.table)
        q, k, v = self.qkv(x).view(rows, 3, self.heads, self.dim).unbind(1)
        self.pages.write(self.table.advance(), k, v)
        keys, values = self.pages.read(self._slots())
        scores = torch.einsum("rhd,rthd->rht", q, keys) / math.sqrt(self.dim)
        valid = self.offsets < self.table.length.unsqueeze(1)
        scores = scores.masked_fill(~valid.unsqueeze(1), -1e9)
        return torch.einsum("rht,rthd->rhd", scores.softmax(-1), values).flatten(1)


def build(device, batch: int = 2):
    table = Table(batch, width=4, page=4, device=device)
    pages = Pages(batch * 4, page=4, heads=2, dim=8, device=device)
    layer = PagedAttention(table, pages, heads=2, dim=8).to(device).eval()
    return layer, (torch.randn(batch, 16, device=device),)
