"""Decode with a static cache whose write position is a Python integer of the cache object."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class StaticCache:
    def __init__(self, batch, heads, length, dim, device):
        self.k = torch.zeros(batch, heads, length, dim, device=device)
        self.v = torch.zeros(batch, heads, length, dim, device=device)
        self.length = length
        self.seen = 0

    def append(self, k, v):
        p = self.seen % self.length
        self.k[:, :, p : p + 1] = k
        self.v[:, :, p : p + 1] = v
        self.seen += 1
        return self.k, self.v

    def mask(self):
        m = torch.zeros(1, 1, 1, self.length, device=self.k.device)
        m[..., min(self.seen, self.length) :] = float("-inf")
        return m


class Decoder(nn.Module):
    def __init__(self, d=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, d)

    def forward(self, x, cache):
        b, t, d = x.shape
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k, v = (u.view(b, t, self.heads, -1).transpose(1, 2) for u in (q, k, v))
        k, v = cache.append(k, v)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=cache.mask())
        return self.out(y.transpose(1, 2).reshape(b, t, d))


def build(device, batch=2):
    model = Decoder().to(device).eval().requires_grad_(False)
    cache = StaticCache(batch, 4, 32, 8, device)
    x = torch.randn(batch, 1, 32, device=device)

    def step(x):
        return model(x, cache)

    return graphsafe.Step(step, (x,), refresh=lambda a, k, i: a[0].copy_(torch.randn(batch, 1, 32)))
