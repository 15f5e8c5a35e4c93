"""Autoregressive decoding with the dynamic cache: keys and values are concatenated."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class DynamicCache:
    def __init__(self):
        self.key_cache = {}
        self.value_cache = {}

    def update(self, k, v, layer):
        if layer in self.key_cache:
            k = torch.cat([self.key_cache[layer], k], dim=-2)
            v = torch.cat([self.value_cache[layer], v], dim=-2)
        self.key_cache[layer], self.value_cache[layer] = k, v
        return k, v


class Block(nn.Module):
    def __init__(self, index, dim=32, heads=2):
        super().__init__()
        self.index, self.heads, self.hd = index, heads, dim // heads
        self.norm = nn.RMSNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x, cache):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.heads, self.hd).permute(2, 0, 3, 1, 4)
        k, v = cache.update(k, v, self.index)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d)
        return x + self.proj(y)


class Decoder(nn.Module):
    def __init__(self, vocab=50, dim=32, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(i, dim) for i in range(layers))
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids, cache):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, cache)
        return self.head(x[:, -1])


def build(device):
    torch.manual_seed(5)
    model = Decoder().to(device).eval().requires_grad_(False)
    cache = DynamicCache()
    model(torch.randint(50, (2, 6), device=device), cache)
    token = torch.randint(50, (2, 1), device=device)

    def decode(token):
        return model(token, cache)

    return graphsafe.Step(decode, (token,), refresh=lambda a, kw, k: a[0].copy_(torch.randint(50, (2, 1))))
