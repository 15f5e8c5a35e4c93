"""A paged cache whose table is a device tensor filled by the scheduler between steps."""
import torch
import torch.nn.functional as F
from torch import nn


class Allocator:
    """Host bookkeeping; `publish` runs when a request arrives, not in a step."""

    def __init__(self, pages, width, device):
        self.free = list(range(pages))
        self.table = torch.zeros(width, dtype=torch.long, device=device)
        self.slot = torch.zeros(1, dtype=torch.long, device=device)

    def publish(self, count):
        taken = [self.free.pop() for _ in range(count)]
        self.table[:count].copy_(torch.tensor(taken))
        self.slot.fill_(taken[-1])


class PagedCache:
    def __init__(self, pages, page, dim, device):
        self.k = torch.zeros(pages, page, dim, device=device)
        self.v = torch.zeros(pages, page, dim, device=device)

    def write(self, slot, k, v):
        self.k.index_copy_(0, slot, k[None])
        self.v.index_copy_(0, slot, v[None])

    def gather(self, table):
        return self.k[table].flatten(0, 1), self.v[table].flatten(0, 1)


class Attention(nn.Module):
    def __init__(self, dim, cache, allocator):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.cache, self.allocator = cache, allocator

    @torch.no_grad()
    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        self.cache.write(self.allocator.slot, k, v)
        ks, vs = self.cache.gather(self.allocator.table)
        return F.scaled_dot_product_attention(q[None], ks[None], vs[None])[0]


def build(device):
    allocator = Allocator(8, 4, device)
    allocator.publish(4)
    cache = PagedCache(8, 4, 16, device)
    return Attention(16, cache, allocator).to(device), (torch.randn(4, 16, device=device),)
