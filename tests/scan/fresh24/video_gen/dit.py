import math

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        w = cfg.width
        self.heads = cfg.heads
        self.norm = nn.LayerNorm(w)
        self.qkv = nn.Linear(w, 3 * w)
        self.cross_q, self.cross_kv = nn.Linear(w, w), nn.Linear(cfg.text_dim, 2 * w)
        self.ff = nn.Sequential(nn.LayerNorm(w), nn.Linear(w, 2 * w), nn.GELU(), nn.Linear(2 * w, w))

    def split(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, text):
        q, k, v = map(self.split, self.qkv(self.norm(x)).chunk(3, -1))
        x = x + F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        k, v = map(self.split, self.cross_kv(text).chunk(2, -1))
        x = x + F.scaled_dot_product_attention(self.split(self.cross_q(x)), k, v).transpose(1, 2).flatten(2)
        return x + self.ff(x)


class VideoDiT(nn.Module):
    """Predicts velocity for a latent clip [batch, frames * places, channels]."""

    def __init__(self, cfg):
        super().__init__()
        self.inp = nn.Linear(cfg.channels, cfg.width)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.layers))
        self.out = nn.Linear(cfg.width, cfg.channels)
        half = cfg.width // 2
        self.register_buffer("freq", torch.exp(-math.log(1000.0) * torch.arange(half) / half))

    def forward(self, latent, t, text):
        angle = t[:, None] * self.freq * 1000
        x = self.inp(latent) + torch.cat([angle.sin(), angle.cos()], -1).unsqueeze(1)
        for block in self.blocks:
            x = block(x, text)
        return self.out(x)


class TextEncoder:
    """Stands for a language model: one vector for each word."""

    def __init__(self, cfg, device):
        self.cfg = cfg
        self.table = torch.randn(256, cfg.text_dim, device=device)
        self.device = device

    def __call__(self, prompt):
        words = prompt.split()[: self.cfg.text_len]
        ids = torch.tensor([sum(map(ord, w)) % 256 for w in words], device=self.device)
        return self.table[ids].unsqueeze(0)
