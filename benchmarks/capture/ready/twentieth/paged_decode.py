"""Paged attention decode step in plain torch: block tables, slot mapping, context lengths refreshed by the scheduler."""
import torch
import torch.nn as nn

import graphsafe

BLOCK, NBLOCKS, MAXB = 4, 32, 5


class PagedAttention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.hd = heads, d // heads
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.proj = nn.Linear(d, d, bias=False)

    def forward(self, x, kv, slots, tables, lens):
        b, d = x.shape
        q, k, v = self.qkv(x).view(b, 3, self.heads, self.hd).unbind(1)
        kc, vc = kv[0].view(-1, self.heads, self.hd), kv[1].view(-1, self.heads, self.hd)
        kc.index_copy_(0, slots, k)
        vc.index_copy_(0, slots, v)
        idx = (tables[:, :, None] * BLOCK + torch.arange(BLOCK, device=x.device)).flatten(1)
        keys, vals = kc[idx], vc[idx]
        scores = torch.einsum("bhd,blhd->bhl", q, keys) * self.hd**-0.5
        live = torch.arange(idx.shape[1], device=x.device)[None] < lens[:, None]
        scores = scores.masked_fill(~live[:, None], float("-inf"))
        out = torch.einsum("bhl,blhd->bhd", scores.softmax(-1), vals)
        return self.proj(out.reshape(b, d))


class Runner:
    def __init__(self, device, batch=3, d=32, heads=4):
        self.batch, self.d = batch, d
        self.attn = PagedAttention(d, heads).to(device).requires_grad_(False)
        self.kv = torch.zeros(2, NBLOCKS, BLOCK, heads, d // heads, device=device)
        self.hidden = torch.randn(batch, d, device=device)
        self.slots = torch.zeros(batch, dtype=torch.long, device=device)
        self.tables = torch.zeros(batch, MAXB, dtype=torch.long, device=device)
        self.lens = torch.ones(batch, dtype=torch.long, device=device)
        self.prepare(0)

    def prepare(self, k):
        pos = [(k + 3 * i) % (MAXB * BLOCK) for i in range(self.batch)]
        tables = torch.stack([(torch.arange(MAXB) * 3 + 7 * i + 1) % NBLOCKS for i in range(self.batch)])
        slots = torch.tensor([int(tables[i, p // BLOCK]) * BLOCK + p % BLOCK for i, p in enumerate(pos)])
        self.tables.copy_(tables)
        self.slots.copy_(slots)
        self.lens.copy_(torch.tensor(pos) + 1)
        self.hidden.copy_(torch.randn(self.batch, self.d))

    def execute(self):
        return self.attn(self.hidden, self.kv, self.slots, self.tables, self.lens)


def build(device):
    runner = Runner(device)
    return graphsafe.Step(runner.execute, refresh=lambda a, kw, k: runner.prepare(k), reset=runner.kv.zero_)
