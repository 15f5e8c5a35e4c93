"""One decode step over an int8 paged key/value cache with a sliding window."""
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F

try:
    from graphsafe import Step
except ImportError:
    Step = None


@dataclass
class CacheSpec:
    blocks: int = 24
    block_size: int = 4
    heads: int = 2
    head_dim: int = 8
    table_len: int = 4


class BlockManager:
    """Keeps the tables of the running sequences on the host."""

    def __init__(self, spec, batch):
        self.spec = spec
        self.tables = torch.arange(batch * spec.table_len).view(batch, spec.table_len) % spec.blocks
        self.free = list(range(batch * spec.table_len, spec.blocks))

    def device_tables(self, device):
        return self.tables.to(device, non_blocking=True)


class Int8Pages:
    def __init__(self, spec, device):
        shape = (spec.blocks, spec.block_size, spec.heads, spec.head_dim)
        self.k = torch.zeros(shape, dtype=torch.int8, device=device)
        self.v = torch.zeros(shape, dtype=torch.int8, device=device)
        self.scales = {}
        self.block_size = spec.block_size

    def scale(self, name, x):
        if name not in self.scales:
            self.scales[name] = x.abs().amax().clamp_min(1e-3) / 127.0
        return self.scales[name]

    def store(self, name, pages, slots, x):
        q = torch.round(x / self.scale(name, x)).clamp(-127, 127).to(torch.int8)
        pages.view(-1, *x.shape[1:]).index_copy_(0, slots, q)

    def load(self, name, pages, tables):
        rows = pages[tables].flatten(1, 2)
        return rows.float() * self.scales[name]


@dataclass
class StepClock:
    """Position of the batch: all sequences of a batch advance together."""
    position: int = 0
    history: list = field(default_factory=list)

    def tick(self):
        now = self.position
        self.position += 1
        return now


class Attention:
    def __init__(self, spec, dim, device):
        self.spec = spec
        inner = spec.heads * spec.head_dim
        self.wqkv = torch.randn(3 * inner, dim, device=device) / dim ** 0.5
        self.wo = torch.randn(dim, inner, device=device) / inner ** 0.5

    def __call__(self, x, pages, tables, position):
        s = self.spec
        q, k, v = F.linear(x, self.wqkv).view(-1, 3, s.heads, s.head_dim).unbind(1)
        offset = position % (s.table_len * s.block_size)
        slots = tables[:, offset // s.block_size] * s.block_size + offset % s.block_size
        pages.store("k", pages.k, slots, k)
        pages.store("v", pages.v, slots, v)
        keys = pages.load("k", pages.k, tables).transpose(1, 2)
        values = pages.load("v", pages.v, tables).transpose(1, 2)
        y = F.scaled_dot_product_attention(q.unsqueeze(2), keys, values)
        return x + F.linear(y.flatten(1), self.wo)


class Decoder:
    def __init__(self, device, batch=3, dim=16, vocab=50):
        torch.manual_seed(2)
        self.spec = CacheSpec()
        self.blocks = BlockManager(self.spec, batch)
        self.pages = Int8Pages(self.spec, device)
        self.clock = StepClock()
        self.embed = torch.randn(vocab, dim, device=device)
        self.attention = Attention(self.spec, dim, device)
        self.device = device

    @torch.inference_mode()
    def step(self, tokens):
        tables = self.blocks.device_tables(self.device)
        x = self.attention(self.embed[tokens], self.pages, tables, self.clock.tick())
        logits = x @ self.embed.T
        if not torch.isfinite(logits).all():
            raise FloatingPointError("decode produced non-finite logits")
        return logits.argmax(-1), logits


def build(device):
    decoder = Decoder(device)
    tokens = torch.randint(0, 50, (3,), device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(0, 50, (3,), device=device))

    if Step is None:
        return decoder.step, (tokens,)
    return Step(decoder.step, (tokens,), refresh=refresh)
