"""Decode attention over a full-capacity cache with a mask."""

import torch
import torch.nn.functional as F
from torch import nn


class CacheManager:
    def __init__(self, slots, capacity, heads, dim, device):
        self.keys = torch.zeros(slots, heads, capacity, dim, device=device)
        self.values = torch.zeros_like(self.keys)
        self.lengths = torch.zeros(slots, dtype=torch.long, device=device)
        self.used = torch.zeros(slots, dtype=torch.int32, device=device)
        self.span = torch.arange(capacity, device=device)
        self.rows = torch.arange(slots, device=device)

    def touch(self, slot):
        self.used[slot : slot + 1] = 1

    def append(self, k, v):
        self.keys[self.rows, :, self.lengths] = k
        self.values[self.rows, :, self.lengths] = v
        self.lengths.add_(1).remainder_(self.span.numel())

    def mask(self):
        return (self.span <= self.lengths.unsqueeze(1))[:, None, None, :]


class DecodeLayer(nn.Module):
    def __init__(self, hidden, heads, manager):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)
        self.manager = manager

    def forward(self, x):
        batch = x.shape[0]
        q, k, v = self.qkv(x).view(batch, 3, self.heads, -1).unbind(dim=1)
        self.manager.touch(0)
        self.manager.append(k, v)
        mixed = F.scaled_dot_product_attention(
            q.unsqueeze(2),
            self.manager.keys,
            self.manager.values,
            attn_mask=self.manager.mask(),
        )
        return x + self.out(mixed.reshape(batch, -1))


def build(device):
    manager = CacheManager(slots=4, capacity=16, heads=2, dim=8, device=device)
    layer = DecodeLayer(16, 2, manager).to(device).eval().requires_grad_(False)
    return layer, (torch.randn(4, 16, device=device),)
