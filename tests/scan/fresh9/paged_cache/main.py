"""Decode attention over a key-value cache that a manager hands out."""

import torch
import torch.nn.functional as F
from torch import nn


class CacheManager:
    def __init__(self, slots, capacity, heads, dim, device):
        self.keys = torch.zeros(slots, heads, capacity, dim, device=device)
        self.values = torch.zeros_like(self.keys)
        self.lengths = torch.full((slots,), 3, dtype=torch.long, device=device)
        self.used = torch.zeros(slots, dtype=torch.int32, device=device)

    def touch(self, slot):
        self.used[slot] = 1

    def append(self, k, v):
        rows = torch.arange(k.shape[0], device=k.device)
        self.keys[rows, :, self.lengths] = k
        self.values[rows, :, self.lengths] = v

    def window(self):
        longest = self.lengths.max() + 1
        return self.keys[:, :, :longest], self.values[:, :, :longest]


class DecodeAttention(nn.Module):
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
        keys, values = self.manager.window()
        mixed = F.scaled_dot_product_attention(q.unsqueeze(2), keys, values)
        return self.out(mixed.reshape(batch, -1))


class Layer(nn.Module):
    def __init__(self, hidden, heads, manager):
        super().__init__()
        self.attention = DecodeAttention(hidden, heads, manager)
        self.mlp = nn.Sequential(nn.Linear(hidden, 32), nn.GELU(), nn.Linear(32, hidden))

    def forward(self, x):
        x = x + self.attention(x)
        return x + self.mlp(x)


def build(device):
    manager = CacheManager(slots=4, capacity=16, heads=2, dim=8, device=device)
    layer = Layer(16, 2, manager).to(device).eval().requires_grad_(False)
    return layer, (torch.randn(4, 16, device=device),)
