"""Paged attention with prefix sharing. The block manager lives on the host, the cache on the device."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

BLOCK = 4


class BlockManager:
    """Hands out blocks in order; a sequence's table grows by one block every BLOCK tokens."""

    def __init__(self, sequences: int, per_sequence: int):
        self.table = torch.zeros(sequences, per_sequence, dtype=torch.long)
        self.free = list(range(1, sequences * per_sequence + 1))
        self.shared = {0: self.free.pop(0)}
        self.table[:, 0] = self.shared[0]

    def ensure(self, position: int) -> None:
        column = position // BLOCK
        if position % BLOCK == 0 and column > 0 and len(self.free) >= len(self.table):
            for row in self.table:
                row[column] = self.free.pop(0)


class PagedAttention(nn.Module):
    def __init__(self, dim: int, blocks: int, manager: BlockManager):
        super().__init__()
        sequences, per_sequence = manager.table.shape
        self.manager = manager
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.register_buffer("cache", torch.zeros(2, blocks, BLOCK, dim))
        self.register_buffer("table", torch.zeros(sequences, per_sequence, dtype=torch.long))
        self.register_buffer("steps", torch.arange(per_sequence * BLOCK))
        self.register_buffer("peak", torch.zeros(sequences))
        self.position = 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pos = self.position % self.steps.numel()
        self.manager.ensure(pos)
        self.table.copy_(self.manager.table)
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        block = self.table[:, pos // BLOCK]
        self.cache[0, block, pos % BLOCK] = k
        self.cache[1, block, pos % BLOCK] = v
        keys, values = (part[self.table].flatten(1, 2) for part in self.cache)
        scores = torch.einsum("bd,btd->bt", q, keys) / q.shape[-1] ** 0.5
        scores = scores.masked_fill(self.steps > pos, float("-inf"))
        self.peak = torch.maximum(self.peak * 0.99, scores.amax(dim=1))
        self.position += 1
        att = (scores - self.peak[:, None]).softmax(dim=-1)
        return self.out(torch.einsum("bt,btd->bd", att, values)), self.peak


class Block(nn.Module):
    def __init__(self, dim: int, blocks: int, manager: BlockManager):
        super().__init__()
        self.attention = PagedAttention(dim, blocks, manager)
        self.norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        attended, peak = self.attention(self.norm(x))
        x = x + attended
        return x + self.mlp(F.layer_norm(x, x.shape[-1:])), peak


def build(device):
    torch.manual_seed(1)
    manager = BlockManager(sequences=3, per_sequence=8)
    model = Block(16, 32, manager).to(device).requires_grad_(False)
    return model, (torch.randn(3, 16, device=device),)
