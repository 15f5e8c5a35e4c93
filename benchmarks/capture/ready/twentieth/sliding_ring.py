"""Sliding-window attention with a ring cache; head index and validity live on the device."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class RingCache(nn.Module):
    def __init__(self, batch, heads, window, dim):
        super().__init__()
        self.window = window
        self.register_buffer("k", torch.zeros(batch, heads, window, dim))
        self.register_buffer("v", torch.zeros(batch, heads, window, dim))
        self.register_buffer("written", torch.zeros(1, dtype=torch.long))

    def forward(self, k, v):
        slot = self.written.remainder(self.window)
        self.k.index_copy_(2, slot, k)
        self.v.index_copy_(2, slot, v)
        self.written.add_(1)
        live = torch.arange(self.window, device=k.device) < self.written
        return self.k, self.v, live.view(1, 1, 1, -1)


class Local(nn.Module):
    def __init__(self, batch, d=32, heads=4, window=16):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(d, 3 * d)
        self.cache = RingCache(batch, heads, window, d // heads)
        self.o = nn.Linear(d, d)

    def forward(self, x):
        b, _, d = x.shape
        q, k, v = (u.view(b, 1, self.heads, -1).transpose(1, 2) for u in self.qkv(x).chunk(3, -1))
        k, v, live = self.cache(k, v)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=live)
        return x + self.o(y.transpose(1, 2).reshape(b, 1, d))


def build(device, batch=2):
    model = nn.Sequential(Local(batch), Local(batch, window=8)).to(device).eval().requires_grad_(False)
    return model, (torch.randn(batch, 1, 32, device=device),)
