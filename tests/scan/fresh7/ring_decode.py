"""Decoding step over ring buffers: the position lives on the device and the window is a mask."""
import math

import torch
import torch.nn as nn


class Ring:
    def __init__(self, heads, dim, limit, device):
        self.k = torch.zeros(heads, limit, dim, device=device)
        self.v = torch.zeros(heads, limit, dim, device=device)

    def write(self, slot, k, v):
        self.k.index_copy_(1, slot, k)
        self.v.index_copy_(1, slot, v)
        return self.k, self.v


class Rings:
    def __init__(self, layers, heads, dim, limit, device):
        self.limit = limit
        self.position = torch.zeros(1, dtype=torch.long, device=device)
        self.columns = torch.arange(limit, device=device)
        self._rings = [Ring(heads, dim, limit, device) for _ in range(layers)]

    def __getitem__(self, i):
        return self._rings[i]

    @property
    def slot(self):
        return self.position % self.limit

    @property
    def hidden(self):
        return self.columns > self.position

    def advance(self):
        self.position.add_(1)


class Rotary(nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.register_buffer("freq", base ** (-torch.arange(0, dim, 2) / dim), persistent=False)

    def forward(self, x, position):
        ang = self.freq * position
        cos, sin = ang.cos(), ang.sin()
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.dim = heads, width // heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width, bias=False)

    def forward(self, x, ring, rings, rotary):
        q, k, v = self.qkv(x).view(1, 3, self.heads, self.dim).permute(1, 2, 0, 3)
        keys, values = ring.write(rings.slot, rotary(k, rings.position), v)
        att = (rotary(q, rings.position) @ keys.transpose(1, 2)) / math.sqrt(self.dim)
        att = att.masked_fill(rings.hidden, float("-inf")).softmax(-1)
        return self.proj((att @ values).transpose(0, 1).reshape(1, -1))


class Decoder(nn.Module):
    def __init__(self, device, vocab=128, width=64, heads=4, layers=2, limit=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(Attention(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, vocab)
        self.rotary = Rotary(width // heads)
        self.rings = Rings(layers, heads, width // heads, limit, device)

    @torch.no_grad()
    def forward(self, token):
        h = self.emb(token)
        for i, layer in enumerate(self.layers):
            h = h + layer(h, self.rings[i], self.rings, self.rotary)
        self.rings.advance()
        return self.head(h)


def build(device):
    torch.manual_seed(0)
    model = Decoder(device).to(device).eval()
    return model, (torch.randint(0, 128, (1,), device=device),)
