"""Rotary embedding built lazily on first use, for the maximum length, then only read."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Rotary(nn.Module):
    def __init__(self, dim, max_len=128, base=10000):
        super().__init__()
        self.dim, self.max_len, self.base = dim, max_len, base
        self._cos = self._sin = None

    def _build(self, device, dtype):
        if self._cos is None or self._cos.device != device or self._cos.dtype != dtype:
            inv = 1.0 / (self.base ** (torch.arange(0, self.dim, 2, device=device).float() / self.dim))
            t = torch.arange(self.max_len, device=device).float()
            f = torch.outer(t, inv)
            self._cos, self._sin = f.cos().to(dtype), f.sin().to(dtype)

    def forward(self, x, pos):
        self._build(x.device, x.dtype)
        c, s = self._cos[pos].unsqueeze(2), self._sin[pos].unsqueeze(2)
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2)


class Block(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.rope = Rotary(d // h)
        self.qkv = nn.Linear(d, 3 * d)
        self.o = nn.Linear(d, d)

    def forward(self, x, pos):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, d // self.h).unbind(2)
        q, k = self.rope(q, pos), self.rope(k, pos)
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        return x + self.o(y.transpose(1, 2).flatten(2))


def build(device, batch=2, length=6):
    model = nn.ModuleList([Block(), Block()]).to(device).eval().requires_grad_(False)
    x = torch.randn(batch, length, 32, device=device)
    pos = torch.arange(length, device=device).repeat(batch, 1)

    def step(x, pos):
        for m in model:
            x = m(x, pos)
        return x

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, length, 32))
        start = torch.randint(0, 128 - length, (batch, 1))
        args[1].copy_(start + torch.arange(length))

    return graphsafe.Step(step, (x, pos), refresh=refresh)
