"""Decode with an int8 KV cache: per-token scales, quantise on write, dequantise on read."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


def quantize(x):
    scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-6) / 127.0
    return torch.clamp(torch.round(x / scale), -127, 127).to(torch.int8), scale


class Int8Cache:
    def __init__(self, b, h, s, d, device):
        self.q = {n: torch.zeros(b, h, s, d, dtype=torch.int8, device=device) for n in "kv"}
        self.s = {n: torch.ones(b, h, s, 1, device=device) for n in "kv"}

    def put(self, name, pos, x):
        q, s = quantize(x)
        self.q[name].index_copy_(2, pos, q)
        self.s[name].index_copy_(2, pos, s)
        return self.q[name].float() * self.s[name]


class Layer(nn.Module):
    def __init__(self, d=32, h=4, kvh=2):
        super().__init__()
        self.h, self.kvh, self.hd = h, kvh, d // h
        self.q = nn.Linear(d, d)
        self.kv = nn.Linear(d, 2 * kvh * self.hd)
        self.o = nn.Linear(d, d)
        self.norm = nn.RMSNorm(d)

    def forward(self, x, pos, cache):
        b, t, d = x.shape
        h = self.norm(x)
        q = self.q(h).view(b, t, self.h, self.hd).transpose(1, 2)
        k, v = self.kv(h).view(b, t, 2 * self.kvh, self.hd).transpose(1, 2).chunk(2, 1)
        k, v = cache.put("k", pos, k), cache.put("v", pos, v)
        mask = (torch.arange(k.shape[2], device=x.device) <= pos).view(1, 1, 1, -1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return x + self.o(y.transpose(1, 2).reshape(b, t, d))


def build(device, batch=2, length=48):
    layer = Layer().to(device).eval().requires_grad_(False)
    cache = Int8Cache(batch, 2, length, 8, device)
    x = torch.randn(batch, 1, 32, device=device)
    pos = torch.zeros(1, dtype=torch.long, device=device)

    def step(x, pos):
        return layer(x, pos, cache)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, 1, 32))
        args[1].fill_(k % length)

    return graphsafe.Step(step, (x, pos), refresh=refresh)
