"""One decoding step over a paged KV cache (block size 16, page 0 is scratch)."""
import math

import torch
from torch import nn


class BlockManager:
    """Hands out pages; the table of every sequence lives on the device."""

    def __init__(self, sequences, blocks_per_seq, block, device):
        self.block = block
        self.table = 1 + torch.arange(
            sequences * blocks_per_seq, device=device
        ).view(sequences, blocks_per_seq)
        self.lens = torch.full((sequences,), 5, dtype=torch.long, device=device)
        self.filled = 5

    @property
    def pages(self):
        return self.table.numel() + 1

    @property
    def longest(self):
        return int(self.lens.max())

    def advance(self):
        self.lens += 1
        self.filled += 1


class PagedCache:
    def __init__(self, manager, heads, dim, device):
        self.manager = manager
        shape = (manager.pages, manager.block, heads, dim)
        self.keys = torch.zeros(shape, device=device)
        self.values = torch.zeros(shape, device=device)

    def write(self, k, v):
        m = self.manager
        page = m.table.gather(1, (m.lens // m.block)[:, None])[:, 0]
        offset = m.lens % m.block
        self.keys[page, offset] = k
        self.values[page, offset] = v

    def context(self):
        m = self.manager
        used = m.table[:, : m.longest // m.block + 1]
        return self.keys[used].flatten(1, 2), self.values[used].flatten(1, 2)


class Layer(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads, self.dim = heads, hidden // heads
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.proj = nn.Linear(hidden, hidden)
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x, cache, mask_of):
        b = x.shape[0]
        q, k, v = (t.view(b, self.heads, self.dim) for t in self.qkv(self.norm(x)).chunk(3, -1))
        cache.write(k, v)
        keys, values = cache.context()
        scores = torch.einsum("bhd,bthd->bht", q, keys) / math.sqrt(self.dim)
        scores = scores.masked_fill(mask_of(keys.shape[1])[:, None, :], float("-inf"))
        return x + self.proj(torch.einsum("bht,bthd->bhd", scores.softmax(-1), values).flatten(1))


class DecodeStep(nn.Module):
    def __init__(self, vocab=512, hidden=64, heads=4, sequences=4, device="cpu"):
        super().__init__()
        self.manager = BlockManager(sequences, 8, 16, device)
        self.cache = PagedCache(self.manager, heads, hidden // heads, device)
        self.embed = nn.Embedding(vocab, hidden)
        self.wpe = nn.Embedding(128, hidden)
        self.layer = Layer(hidden, heads)
        self.head = nn.Linear(hidden, vocab)
        self.register_buffer("slots", torch.arange(128))

    def _mask(self, width):
        return self.slots[:width] > self.manager.lens[:, None]

    def forward(self, ids):
        x = self.embed(ids) + self.wpe.weight[self.manager.filled]
        x = self.layer(x, self.cache, self._mask)
        self.manager.advance()
        return self.head(x)


def build(device):
    torch.manual_seed(0)
    model = DecodeStep(device=device).to(device).eval().requires_grad_(False)
    ids = torch.randint(0, 512, (4,), device=device)
    return model, (ids,)
