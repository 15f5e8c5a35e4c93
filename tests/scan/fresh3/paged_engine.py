"""A small paged decoder: block tables, a KV store and the runner that joins them."""
from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class EngineConfig:
    heads: int = 2
    head_dim: int = 8
    block_size: int = 4
    num_blocks: int = 32
    max_blocks_per_seq: int = 4

    @property
    def width(self) -> int:
        return self.heads * self.head_dim


class BlockTable:
    def __init__(self, batch: int, cfg: EngineConfig, device):
        self.cfg = cfg
        self.table = torch.arange(batch * cfg.max_blocks_per_seq, device=device).view(batch, -1)
        self.rows = list(range(batch))

    def slots(self, positions: torch.Tensor) -> torch.Tensor:
        rows = torch.tensor(self.rows, device=positions.device)
        block = self.table[rows, positions // self.cfg.block_size]
        return block * self.cfg.block_size + positions % self.cfg.block_size


class KVStore:
    def __init__(self, cfg: EngineConfig, device):
        size = cfg.num_blocks * cfg.block_size
        self.k = torch.zeros(size, cfg.width, device=device)
        self.v = torch.zeros(size, cfg.width, device=device)

    def write(self, slots, k, v):
        self.k.index_copy_(0, slots, k)
        self.v.index_copy_(0, slots, v)

    def gather(self, table, block_size, blocks):
        idx = table[:, :blocks, None] * block_size + torch.arange(block_size, device=table.device)
        flat = idx.flatten(1)
        return self.k[flat], self.v[flat]


class Attention(nn.Module):
    def __init__(self, cfg: EngineConfig):
        super().__init__()
        self.cfg = cfg
        self.qkv = nn.Linear(cfg.width, 3 * cfg.width)
        self.out = nn.Linear(cfg.width, cfg.width)

    def forward(self, x, store: KVStore, blocks: BlockTable, lengths):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        store.write(blocks.slots(lengths - 1), k, v)
        longest = int(lengths.max())
        used = -(-longest // self.cfg.block_size)
        keys, values = store.gather(blocks.table, self.cfg.block_size, used)
        scores = torch.einsum("bd,btd->bt", q, keys) / q.shape[-1] ** 0.5
        span = torch.arange(scores.shape[1], device=x.device)
        scores = scores.masked_fill(span[None] >= lengths[:, None], float("-inf"))
        return self.out(torch.einsum("bt,btd->bd", F.softmax(scores, -1), values))


class Runner:
    def __init__(self, cfg: EngineConfig, batch: int, device):
        self.attn = Attention(cfg).to(device).eval().requires_grad_(False)
        self.head = nn.Linear(cfg.width, 16).to(device).requires_grad_(False)
        self.store = KVStore(cfg, device)
        self.blocks = BlockTable(batch, cfg, device)

    def execute(self, hidden, lengths):
        hidden = hidden + self.attn(hidden, self.store, self.blocks, lengths)
        logits = self.head(hidden)
        live = lengths > 1
        logits[live] = logits[live] * 0.5
        return logits


def build(device):
    cfg = EngineConfig()
    runner = Runner(cfg, 4, device)
    hidden = torch.randn(4, cfg.width, device=device)
    lengths = torch.randint(1, 16, (4,), device=device)
    return runner.execute, (hidden, lengths)
