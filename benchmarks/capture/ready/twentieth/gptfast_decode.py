"""gpt-fast style decode: static KV cache, position tensor, top-k and exponential sampling, token written back."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


def multinomial_no_sync(probs):
    q = torch.empty_like(probs).exponential_(1)
    return torch.argmax(probs / q, dim=-1, keepdim=True)


class KVCache(nn.Module):
    def __init__(self, b, h, s, d, device):
        super().__init__()
        self.register_buffer("k", torch.zeros(b, h, s, d, device=device))
        self.register_buffer("v", torch.zeros(b, h, s, d, device=device))

    def update(self, pos, k, v):
        self.k[:, :, pos] = k
        self.v[:, :, pos] = v
        return self.k, self.v


class Attn(nn.Module):
    def __init__(self, d, h, b, s, device):
        super().__init__()
        self.h, self.hd = h, d // h
        self.wqkv = nn.Linear(d, 3 * d, bias=False, device=device)
        self.wo = nn.Linear(d, d, bias=False, device=device)
        self.cache = KVCache(b, h, s, self.hd, device)

    def forward(self, x, pos, mask, freqs):
        b, t, d = x.shape
        q, k, v = (u.view(b, t, self.h, self.hd).transpose(1, 2) for u in self.wqkv(x).split(d, -1))
        q, k = rope(q, freqs), rope(k, freqs)
        k, v = self.cache.update(pos, k, v)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.wo(y.transpose(1, 2).reshape(b, t, d))


def rope(x, freqs):
    xr = x.float().reshape(*x.shape[:-1], -1, 2)
    c, s = freqs[..., 0], freqs[..., 1]
    out = torch.stack([xr[..., 0] * c - xr[..., 1] * s, xr[..., 1] * c + xr[..., 0] * s], -1)
    return out.flatten(-2).to(x.dtype)


class Model(nn.Module):
    def __init__(self, device, vocab=96, d=32, h=4, b=1, s=64):
        super().__init__()
        self.emb = nn.Embedding(vocab, d, device=device)
        self.layers = nn.ModuleList(Attn(d, h, b, s, device) for _ in range(2))
        self.norm = nn.RMSNorm(d, device=device)
        self.out = nn.Linear(d, vocab, bias=False, device=device)
        self.register_buffer("mask", torch.tril(torch.ones(s, s, dtype=torch.bool, device=device)))
        t = torch.arange(s, device=device).float()[:, None] / (10000 ** (torch.arange(0, d // h, 2, device=device).float() / (d // h)))
        self.register_buffer("freqs", torch.stack([t.cos(), t.sin()], -1))

    def forward(self, ids, pos):
        x = self.emb(ids)
        mask, freqs = self.mask[None, None, pos], self.freqs[pos]
        for layer in self.layers:
            x = x + layer(self.norm(x), pos, mask, freqs)
        return self.out(self.norm(x))


def build(device):
    model = Model(device).eval().requires_grad_(False)
    ids = torch.tensor([[3]], device=device)
    pos = torch.tensor([0], device=device)

    def decode(ids, pos):
        logits = model(ids, pos)[:, -1] / 0.8
        v, _ = torch.topk(logits, 20)
        logits = torch.where(logits < v[:, -1:], -math.inf, logits)
        token = multinomial_no_sync(torch.softmax(logits, -1))
        ids.copy_(token)
        pos.add_(1)
        return token.clone(), logits

    def reset():
        pos.zero_()
        ids.fill_(3)
        for layer in model.layers:
            layer.cache.k.zero_()
            layer.cache.v.zero_()

    return graphsafe.Step(decode, (ids, pos), reset=reset)
