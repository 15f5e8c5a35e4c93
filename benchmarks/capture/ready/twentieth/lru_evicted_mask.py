"""A causal bias from an lru_cache that keeps two entries; prefills of other lengths between decode steps evict it."""
import functools

import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


@functools.lru_cache(maxsize=2)
def relative_bias(length, device, slope=0.1):
    i = torch.arange(length, device=device, dtype=torch.float32)
    dist = i[:, None] - i[None]
    return torch.where(dist >= 0, -slope * dist, torch.full_like(dist, float("-inf")))


class Attention(nn.Module):
    def __init__(self, d=16, h=2):
        super().__init__()
        self.h = h
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=relative_bias(t, x.device))
        return self.o(y.transpose(1, 2).flatten(2))


class Engine:
    def __init__(self, device, d=16, depth=2):
        self.layers = nn.ModuleList(Attention(d) for _ in range(depth)).to(device).eval().requires_grad_(False)
        self.device = device

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x

    def prefill(self, length):
        return self.forward(torch.randn(1, length, 16, device=self.device))


def build(device, batch=2, t=8):
    e = Engine(device)
    x = torch.randn(batch, t, 16, device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, t, 16))
        if k % 3 == 2:  # a new request arrives and is prefilled eagerly
            e.prefill(10 + k % 7)

    return graphsafe.Step(e.forward, (x,), refresh=refresh)
