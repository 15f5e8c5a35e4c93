"""A paged key/value store and one attention step over it."""
from __future__ import annotations

import math

import torch


class PageList:
    """Physical pages of one pool in the order they were handed out."""

    def __init__(self, capacity: int, device: torch.device):
        self.order = torch.arange(capacity, device=device)
        self.used = torch.full((), 3, dtype=torch.long, device=device)

    def __len__(self) -> int:
        return int(self.used)

    def take(self, amount: int) -> None:
        self.used.add_(amount)


class Pages:
    """Key and value pages that can be indexed together."""

    def __init__(self, pages: int, size: int, heads: int, dim: int, device: torch.device):
        shape = (pages, size, heads, dim)
        self.size = size
        self.k = torch.zeros(shape, device=device)
        self.v = torch.zeros(shape, device=device)
        self.touched = torch.zeros(pages, dtype=torch.int32, device=device)

    def __getitem__(self, pages):
        return self.k[pages].flatten(0, 1), self.v[pages].flatten(0, 1)

    def write(self, slot: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
        page = slot.div(self.size, rounding_mode="floor")
        self.k.flatten(0, 1).index_copy_(0, slot, k)
        self.v.flatten(0, 1).index_copy_(0, slot, v)
        self.touched[page] = 1


class Attention:
    sinks = [0, 1]

    def __init__(self, pages: Pages, free: PageList, heads: int, dim: int, recent: int, device):
        self.pages, self.free = pages, free
        self.heads, self.dim, self.recent = heads, dim, recent
        self.tail_k = torch.zeros(recent, heads, dim, device=device)
        self.tail_v = torch.zeros(recent, heads, dim, device=device)
        self.proj = torch.randn(3, heads * dim, heads * dim, device=device) / math.sqrt(heads * dim)

    def _qkv(self, x: torch.Tensor):
        return [(x @ w).view(-1, self.heads, self.dim) for w in self.proj]

    @torch.no_grad()
    def __call__(self, x: torch.Tensor, slot: torch.Tensor) -> torch.Tensor:
        q, k, v = self._qkv(x)
        self.pages.write(slot, k, v)
        self.tail_k = torch.cat([self.tail_k, k])[-self.recent:]
        self.tail_v.copy_(torch.cat([self.tail_v, v])[-self.recent:])

        sink_k, sink_v = self.pages[self.sinks]
        keys = torch.cat([sink_k, self.tail_k])
        values = torch.cat([sink_v, self.tail_v])
        share = 1.0 / max(1, len(self.free))
        att = torch.einsum("qhd,khd->hqk", q, keys) / math.sqrt(self.dim)
        out = torch.einsum("hqk,khd->qhd", att.softmax(-1), values)
        return out.flatten(1) * (1.0 - share)


def build(device, batch: int = 2):
    pages = Pages(pages=8, size=4, heads=2, dim=8, device=device)
    layer = Attention(pages, PageList(8, device), heads=2, dim=8, recent=6, device=device)
    slots = torch.arange(batch, device=device) * 5 + 9
    return layer, (torch.randn(batch, 16, device=device), slots)
