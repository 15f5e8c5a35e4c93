from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class EncoderConfig:
    vocab: int = 120
    dim: int = 32
    heads: int = 4
    layers: int = 2
    max_len: int = 32


class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.heads = cfg.heads
        self.norm = nn.LayerNorm(cfg.dim)
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim)
        self.out = nn.Linear(cfg.dim, cfg.dim)
        self.mlp = nn.Sequential(nn.LayerNorm(cfg.dim), nn.Linear(cfg.dim, 2 * cfg.dim), nn.GELU(),
                                 nn.Linear(2 * cfg.dim, cfg.dim))

    def forward(self, x, bias):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).flatten(2))
        return x + self.mlp(x)


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab, cfg.dim)
        self.pos = nn.Parameter(torch.randn(cfg.max_len, cfg.dim) * 0.02)
        self.layers = nn.ModuleList(Layer(cfg) for _ in range(cfg.layers))
        self.register_buffer("steps", torch.arange(cfg.max_len))

    def forward(self, ids, lengths, pooling):
        n = ids.shape[1]
        inside = self.steps[:n] < lengths[:, None]
        bias = torch.zeros(inside.shape, device=ids.device).masked_fill(~inside, -1e4)[:, None, None]
        x = self.tok(ids) + self.pos[:n]
        for layer in self.layers:
            x = layer(x, bias)
        if pooling == "first":
            return F.normalize(x[:, 0], dim=-1)
        weight = inside.to(x.dtype).unsqueeze(-1)
        return F.normalize((x * weight).sum(1) / weight.sum(1).clamp_min(1), dim=-1)
