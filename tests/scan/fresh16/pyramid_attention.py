"""A block of a video diffusion model that computes attention in each third step only."""

import torch
import torch.nn as nn
import torch.nn.functional as F

FRAMES, PATCHES, WIDTH, HEADS = 4, 16, 32, 4


class BroadcastAttention(nn.Module):
    def __init__(self, every):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.every = every
        self.calls = 0
        self.kept = torch.zeros(FRAMES, PATCHES, WIDTH)

    def attend(self, x):
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    def forward(self, x):
        if self.calls % self.every == 0:
            self.kept = self.attend(x)
        self.calls += 1
        return self.kept


class VideoBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.spatial = BroadcastAttention(every=3)
        self.norm = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
        self.shift = nn.Linear(WIDTH, 2 * WIDTH)
        self.momentum = None

    @torch.no_grad()
    def forward(self, latent, condition):
        scale, shift = self.shift(condition).chunk(2, -1)
        hidden = self.norm(latent) * (1 + scale) + shift
        hidden = latent + self.spatial(hidden)
        velocity = self.mlp(hidden)
        if self.momentum is None:
            self.momentum = torch.zeros_like(velocity)
        self.momentum = 0.8 * self.momentum + velocity
        return latent - 0.05 * self.momentum


def build(device):
    torch.manual_seed(6)
    latent = torch.randn(FRAMES, PATCHES, WIDTH, device=device)
    condition = torch.randn(FRAMES, 1, WIDTH, device=device)
    return VideoBlock().to(device).eval(), (latent, condition)
