"""Incremental attention with a cache manager shared by all layers."""
from dataclasses import dataclass, field
from typing import List

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class LayerCache:
    k: torch.Tensor
    v: torch.Tensor


@dataclass
class CacheManager:
    layers: List[LayerCache] = field(default_factory=list)
    length: int = 0

    @classmethod
    def empty(cls, depth, batch, heads, dim, device):
        make = lambda: torch.zeros(batch, heads, 0, dim, device=device)
        return cls([LayerCache(make(), make()) for _ in range(depth)])

    def append(self, index, k, v):
        layer = self.layers[index]
        layer.k = torch.cat([layer.k, k], dim=2)
        layer.v = torch.cat([layer.v, v], dim=2)
        return layer.k, layer.v


class Attention(nn.Module):
    def __init__(self, width, heads, index):
        super().__init__()
        self.heads = heads
        self.index = index
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, cache):
        b, t, w = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        k, v = cache.append(self.index, k, v)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(b, t, w))


class Model(nn.Module):
    def __init__(self, vocab=128, width=32, heads=4, depth=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.pos = nn.Embedding(512, width)
        self.layers = nn.ModuleList(Attention(width, heads, i) for i in range(depth))
        self.head = nn.Linear(width, vocab)
        self.depth, self.heads, self.dim = depth, heads, width // heads


class Session:
    def __init__(self, model, batch, device):
        self.model = model
        self.cache = CacheManager.empty(model.depth, batch, model.heads, model.dim, device)

    @torch.no_grad()
    def decode(self, ids):
        m = self.model
        h = m.emb(ids) + m.pos.weight[self.cache.length]
        for layer in m.layers:
            h = h + layer(h, self.cache)
        self.cache.length += 1
        return m.head(h[:, -1])


def build(device):
    torch.manual_seed(0)
    session = Session(Model().to(device).eval(), 2, device)
    ids = torch.randint(0, 128, (2, 1), device=device)
    return session.decode, (ids,)
