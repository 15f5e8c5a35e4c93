"""Paged KV cache in int8 with a scale per token; slots and block tables are device tensors of the scheduler."""
from dataclasses import dataclass

import torch
import torch.nn as nn

import graphsafe


@dataclass
class AttnMeta:
    slots: torch.Tensor
    tables: torch.Tensor
    lengths: torch.Tensor


class PagedInt8Cache:
    def __init__(self, blocks, size, heads, dim, device):
        self.size = size
        shape = (blocks * size, heads, dim)
        self.k = torch.zeros(shape, dtype=torch.int8, device=device)
        self.v = torch.zeros(shape, dtype=torch.int8, device=device)
        self.ks = torch.zeros(blocks * size, heads, 1, device=device)
        self.vs = torch.zeros(blocks * size, heads, 1, device=device)

    @staticmethod
    def quantize(x):
        scale = x.abs().amax(-1, keepdim=True).clamp_min(1e-6) / 127
        return torch.round(x / scale).clamp(-127, 127).to(torch.int8), scale

    def write(self, k, v, slots):
        for x, store, scales in ((k, self.k, self.ks), (v, self.v, self.vs)):
            q, s = self.quantize(x)
            store.index_copy_(0, slots, q)
            scales.index_copy_(0, slots, s)

    def read(self, tables):
        offs = torch.arange(self.size, device=tables.device)
        idx = (tables.unsqueeze(-1) * self.size + offs).flatten(1)
        return self.k[idx].float() * self.ks[idx], self.v[idx].float() * self.vs[idx]


class Attn(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, cache, meta):
        b = x.shape[0]
        q, k, v = self.qkv(x).view(b, 3, self.heads, self.hd).unbind(1)
        cache.write(k, v, meta.slots)
        keys, values = cache.read(meta.tables)
        scores = torch.einsum("bhd,bthd->bht", q, keys) / self.hd**0.5
        pos = torch.arange(keys.shape[1], device=x.device)
        scores = scores.masked_fill(pos >= meta.lengths[:, None, None], float("-inf"))
        y = torch.einsum("bht,bthd->bhd", scores.softmax(-1), values)
        return self.out(y.reshape(b, -1))


def build(device, batch=3):
    torch.manual_seed(4)
    layer = Attn(32, 4).to(device).eval().requires_grad_(False)
    cache = PagedInt8Cache(32, 4, 4, 8, device)
    meta = AttnMeta(
        torch.zeros(batch, dtype=torch.long, device=device),
        torch.zeros(batch, 4, dtype=torch.long, device=device),
        torch.ones(batch, dtype=torch.long, device=device),
    )
    x = torch.randn(batch, 32, device=device)

    def prepare(args, kwargs, k):
        blocks = torch.randperm(32)[: batch * 4].view(batch, 4)
        lengths = torch.randint(1, 17, (batch,))
        last = lengths - 1
        slots = blocks.gather(1, (last // 4)[:, None]).squeeze(1) * 4 + last % 4
        meta.tables.copy_(blocks)
        meta.lengths.copy_(lengths)
        meta.slots.copy_(slots)
        x.copy_(torch.randn(batch, 32))

    return graphsafe.Step(lambda x: layer(x, cache, meta), (x,), refresh=prepare)
