"""A paged cache with an allocator object, one decode step."""
import torch
import torch.nn.functional as F
from torch import nn


class Allocator:
    def __init__(self, pages):
        self.free = list(range(pages))
        self.owned = {}

    def take(self, request):
        page = self.free.pop() if self.free else 0
        self.owned.setdefault(request, []).append(page)
        return page

    def pages(self, request, last):
        return self.owned.get(request, [])[-last:] or [0]


class PagedCache:
    def __init__(self, pages, page, dim, device):
        self.k = torch.zeros(pages, page, dim, device=device)
        self.v = torch.zeros(pages, page, dim, device=device)
        self.device = device

    def gather(self, pages):
        table = torch.tensor(pages, device=self.device)
        return self.k[table].flatten(0, 1), self.v[table].flatten(0, 1)

    def recent(self, pages):
        return self.k[[p for p in pages]].mean(1)


class Attention(nn.Module):
    def __init__(self, dim, cache, allocator):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.cache, self.allocator = cache, allocator

    @torch.no_grad()
    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        page = self.allocator.take("r0") if len(self.allocator.owned) < 1 else self.allocator.pages("r0", 1)[0]
        self.cache.k[page].copy_(k)
        self.cache.v[page].copy_(v)
        held = self.allocator.pages("r0", 4)
        ks, vs = self.cache.gather(held)
        return F.scaled_dot_product_attention(q[None], ks[None], vs[None])[0] + self.cache.recent(held)[0]


def build(device):
    allocator = Allocator(8)
    cache = PagedCache(8, 4, 16, device)
    return Attention(16, cache, allocator).to(device), (torch.randn(4, 16, device=device),)
