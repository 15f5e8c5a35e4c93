"""A 24-layer decoder step of about 900 operations, to measure the cost of launches when the kernels are small."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Block(nn.Module):
    """Attention over a cache written in place, and a gated MLP; `hidden` is [batch, 1, width]."""

    keys: Tensor
    values: Tensor

    def __init__(self, width: int, heads: int, batch: int, length: int, device: torch.device) -> None:
        super().__init__()
        self.heads, self.head_dim = heads, width // heads
        self.attention_norm = nn.RMSNorm(width, device=device)
        self.qkv = nn.Linear(width, 3 * width, bias=False, device=device)
        self.out = nn.Linear(width, width, bias=False, device=device)
        self.mlp_norm = nn.RMSNorm(width, device=device)
        self.gate = nn.Linear(width, 4 * width, bias=False, device=device)
        self.up = nn.Linear(width, 4 * width, bias=False, device=device)
        self.down = nn.Linear(4 * width, width, bias=False, device=device)
        self.register_buffer("keys", torch.zeros(batch, heads, length, self.head_dim, device=device))
        self.register_buffer("values", torch.zeros(batch, heads, length, self.head_dim, device=device))

    def forward(self, hidden: Tensor, cos: Tensor, sin: Tensor, slot: Tensor, unwritten: Tensor) -> Tensor:
        heads = self.qkv(self.attention_norm(hidden)).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
        rotated, value = heads.split([2 * self.heads, self.heads], dim=1)
        query, key = rotate(rotated, cos, sin).chunk(2, dim=1)
        self.keys.index_copy_(2, slot, key)
        self.values.index_copy_(2, slot, value)
        scores = (query @ self.keys.transpose(-1, -2) * self.head_dim**-0.5).masked_fill(unwritten, float("-inf"))
        hidden = hidden + self.out((scores.softmax(dim=-1) @ self.values).transpose(1, 2).flatten(2))
        normed = self.mlp_norm(hidden)
        return hidden + self.down(nn.functional.silu(self.gate(normed)) * self.up(normed))


def rotate(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = heads.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class Decoder(nn.Module):
    slots: Tensor
    position: Tensor
    cos: Tensor
    sin: Tensor

    def __init__(
        self, layers: int, width: int, heads: int, vocabulary: int, batch: int, length: int, device: torch.device
    ) -> None:
        super().__init__()
        self.length = length
        self.embedding = nn.Embedding(vocabulary, width, device=device)
        self.blocks = nn.ModuleList(Block(width, heads, batch, length, device) for _ in range(layers))
        self.norm = nn.RMSNorm(width, device=device)
        self.head = nn.Linear(width, vocabulary, bias=False, device=device)
        head_dim = width // heads
        frequency = 10000.0 ** (-torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
        angle = torch.outer(torch.arange(length, dtype=torch.float32), frequency)
        self.register_buffer("cos", angle.cos().to(device))
        self.register_buffer("sin", angle.sin().to(device))
        self.register_buffer("slots", torch.arange(length, device=device))
        self.register_buffer("position", torch.zeros(1, dtype=torch.int64, device=device))

    def forward(self, token: Tensor) -> Tensor:
        slot = self.position % self.length
        cos, sin = self.cos.index_select(0, slot), self.sin.index_select(0, slot)
        unwritten = self.slots > self.position
        hidden = self.embedding(token)
        for block in self.blocks:
            hidden = block(hidden, cos, sin, slot, unwritten)
        self.position.add_(1)
        return self.head(self.norm(hidden))


def build_layer(
    device: torch.device, *, batch: int = 4, length: int = 512, layers: int = 24
) -> tuple[nn.Module, tuple[Tensor]]:
    """A decoder with an empty cache of `length` slots and the first token of each sequence, [batch, 1]."""
    decoder = Decoder(layers, 256, 4, 1024, batch, length, device).eval().requires_grad_(False)
    return decoder, (torch.randint(0, 1024, (batch, 1), device=device),)
