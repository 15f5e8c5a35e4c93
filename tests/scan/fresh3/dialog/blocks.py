import torch
import torch.nn.functional as F
from torch import nn

from .positions import Rotary


class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.rotary = Rotary(dim)
        self.qkv = nn.Linear(dim, 3 * dim)

    def forward(self, x, position):
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k = self.rotary(q, position), self.rotary(k, position)
        return F.scaled_dot_product_attention(q[None], k[None], v[None])[0]


class StochasticDepth(nn.Module):
    def __init__(self, keep, stats):
        super().__init__()
        self.keep = keep
        self.stats = stats

    def forward(self, x):
        torch.manual_seed(self.stats["calls"])
        self.stats["calls"] += 1
        return x * torch.bernoulli(torch.full_like(x[:, :1], self.keep)) / self.keep


class Layer(nn.Module):
    def __init__(self, dim, stats):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.attention = SelfAttention(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.depth = StochasticDepth(0.9, stats)

    def forward(self, x, position):
        x = x + self.attention(self.norm(x), position)
        return x + self.depth(self.mlp(x))
