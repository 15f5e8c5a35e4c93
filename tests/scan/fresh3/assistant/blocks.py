import torch
import torch.nn.functional as F
from torch import nn

from .positions import Rotary


class SelfAttention(nn.Module):
    def __init__(self, dim, rotary):
        super().__init__()
        self.rotary = rotary
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, position):
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k = self.rotary(q, position), self.rotary(k, position)
        return self.out(F.scaled_dot_product_attention(q[None], k[None], v[None])[0])


class StochasticDepth(nn.Module):
    def __init__(self, keep, tokens):
        super().__init__()
        self.keep = keep
        self.register_buffer("coin", torch.ones(tokens, 1))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        if not self.training or self.keep == 1.0:
            return x
        self.calls += 1
        return x * self.coin.bernoulli_(self.keep) / self.keep


class Layer(nn.Module):
    def __init__(self, dim, rotary, keep, tokens):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.attention = SelfAttention(dim, rotary)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.depth = StochasticDepth(keep, tokens)

    def forward(self, x, position):
        x = x + self.attention(self.norm(x), position)
        return x + self.depth(self.mlp(x))
