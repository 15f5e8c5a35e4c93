"""Decode attention over paged keys and values with per-sequence lengths."""

import torch
from torch import nn


class PagedStore(nn.Module):
    def __init__(self, pages: int, page: int, heads: int, dim: int, sequences: int, per_sequence: int):
        super().__init__()
        self.page = page
        self.register_buffer("keys", torch.zeros(pages * page, heads, dim))
        self.register_buffer("values", torch.zeros(pages * page, heads, dim))
        table = torch.arange(sequences * per_sequence).view(sequences, per_sequence) % pages
        self.register_buffer("table", table)
        self.register_buffer("lengths", torch.zeros(sequences, dtype=torch.int64))
        self.register_buffer("offsets", torch.arange(page * per_sequence))

    @property
    def window(self) -> int:
        return self.offsets.shape[0]

    def append(self, k: torch.Tensor, v: torch.Tensor) -> None:
        column = torch.div(self.lengths, self.page, rounding_mode="floor").unsqueeze(1)
        slot = self.table.gather(1, column).squeeze(1) * self.page + self.lengths % self.page
        self.keys.index_copy_(0, slot, k)
        self.values.index_copy_(0, slot, v)
        self.lengths.add_(1).remainder_(self.window)

    def gather(self):
        columns = torch.div(self.offsets, self.page, rounding_mode="floor")
        rows = self.table.index_select(1, columns) * self.page + self.offsets % self.page
        valid = self.offsets.unsqueeze(0) < self.lengths.clamp(min=1).unsqueeze(1)
        return self.keys[rows], self.values[rows], valid


class PagedAttention(nn.Module):
    def __init__(self, width: int, heads: int, store: PagedStore):
        super().__init__()
        self.heads, self.dim = heads, width // heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.store = store

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.shape[0]
        q, k, v = self.qkv(x).view(rows, 3, self.heads, self.dim).unbind(1)
        self.store.append(k, v)
        keys, values, valid = self.store.gather()
        scores = torch.einsum("bhd,blhd->bhl", q, keys) * self.dim**-0.5
        scores = scores.masked_fill(~valid.unsqueeze(1), float("-inf"))
        mixed = torch.einsum("bhl,blhd->bhd", scores.softmax(-1), values)
        return self.out(mixed.reshape(rows, -1))


def build(device):
    torch.manual_seed(0)
    store = PagedStore(pages=40, page=4, heads=4, dim=8, sequences=5, per_sequence=8)
    layer = PagedAttention(32, 4, store).to(device).requires_grad_(False)
    return layer, (torch.randn(5, 32, device=device),)
