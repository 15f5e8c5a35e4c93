"""A vision transformer that merges tokens: even and odd tokens are the two sets, and like pairs are averaged."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Merge(nn.Module):
    def __init__(self, ratio=0.25):
        super().__init__()
        self.ratio = ratio

    def split(self, tokens):
        return tokens[:, ::2], tokens[:, 1::2]

    def forward(self, tokens):
        source, target = self.split(tokens)
        likeness = F.normalize(source, dim=-1) @ F.normalize(target, dim=-1).transpose(1, 2)
        best, partner = likeness.max(-1)
        count = int(source.shape[1] * self.ratio)
        edges = best.argsort(-1, descending=True)
        merged, kept = edges[:, :count], edges[:, count:]
        place = partner.gather(1, merged).unsqueeze(-1).expand(-1, -1, tokens.shape[-1])
        moved = source.gather(1, merged.unsqueeze(-1).expand(-1, -1, tokens.shape[-1]))
        target = target.scatter_reduce(1, place, moved, "mean")
        stay = source.gather(1, kept.unsqueeze(-1).expand(-1, -1, tokens.shape[-1]))
        return torch.cat([stay, target], 1)


class Block(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.feed = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))
        self.merge = Merge()
        self.heads = heads

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return self.feed(self.merge(x))


class Encoder(nn.Module):
    def __init__(self, depth=2, width=32):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, stride=4)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))

    def forward(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return x.mean(1)


def build(device):
    torch.manual_seed(11)
    encoder = Encoder().to(device).eval().requires_grad_(False)
    return encoder, (torch.rand(2, 3, 32, 32, device=device),)
