"""Attention with rotary positions; the tables grow when longer positions arrive."""

import torch
import torch.nn as nn


class Rotary(nn.Module):
    def __init__(self, width, base=10000.0):
        super().__init__()
        self.width = width
        self.base = base
        self.cos = None
        self.sin = None

    def tables(self, positions):
        needed = int(positions.max()) + 1
        if self.cos is None or self.cos.shape[0] < needed:
            rate = self.base ** (-torch.arange(0, self.width, 2, device=positions.device) / self.width)
            angle = torch.outer(torch.arange(needed, device=positions.device), rate)
            self.cos, self.sin = angle.cos(), angle.sin()
        return self.cos[positions], self.sin[positions]

    def forward(self, x, positions):
        cos, sin = self.tables(positions)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


class Attention(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.rotary = Rotary(width)
        self.out = nn.Linear(width, width)

    def mask(self, score, lengths):
        blocked = torch.zeros_like(score)
        for row, length in enumerate(lengths):
            blocked[row, :, length:] = -1e9
        return score + blocked

    def forward(self, x, positions, lengths):
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k = self.rotary(q, positions), self.rotary(k, positions)
        score = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
        return x + self.out(self.mask(score, lengths).softmax(-1) @ v)


class Block(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = Attention(width)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))

    def forward(self, x, positions, lengths):
        x = self.attention(self.norm(x), positions, lengths)
        return x + self.feed(x)


def build(device):
    torch.manual_seed(5)
    block = Block().to(device).eval().requires_grad_(False)
    x = torch.randn(2, 12, 32, device=device)
    positions = torch.arange(12, device=device).expand(2, -1) + torch.tensor([[0], [5]], device=device)
    lengths = torch.tensor([12, 7], device=device)
    return block, (x, positions, lengths)
