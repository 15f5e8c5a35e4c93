import math

import torch
import torch.nn as nn

from .store import StoreRegistry


class Rotary:
    def __init__(self, dim, base=10000.0):
        self.dim, self.base = dim, base
        self._freq = None

    def freq(self, device):
        if self._freq is None:
            self._freq = self.base ** (-torch.arange(0, self.dim, 2, device=device) / self.dim)
        return self._freq

    def __call__(self, x, position):
        ang = self.freq(x.device) * position
        cos, sin = ang.cos(), ang.sin()
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.dim = heads, width // heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width, bias=False)

    def forward(self, x, store, rotary, position):
        q, k, v = self.qkv(x).view(1, 3, self.heads, self.dim).permute(1, 2, 0, 3)
        keys, values = store.append(rotary(k, position), v)
        att = (rotary(q, position) @ keys.transpose(1, 2)) / math.sqrt(self.dim)
        return self.proj((att.softmax(-1) @ values).transpose(0, 1).reshape(1, -1))


class Decoder(nn.Module):
    def __init__(self, vocab=128, width=64, heads=4, layers=2, limit=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(Attention(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, vocab)
        self.stores = StoreRegistry(layers, heads, width // heads, limit)
        self.rotary = Rotary(width // heads)
        self.sink = None
        self.position = 0

    @torch.no_grad()
    def forward(self, token):
        h = self.emb(token)
        if self.sink is None:
            self.sink = h.clone()
        h = h + 0.1 * self.sink
        where = self.position
        for i, layer in enumerate(self.layers):
            h = h + layer(h, self.stores[i], self.rotary, where)
        self.position += 1
        return self.head(h)


def build(device):
    torch.manual_seed(0)
    model = Decoder().to(device).eval()
    return model, (torch.randint(0, 128, (1,), device=device),)
