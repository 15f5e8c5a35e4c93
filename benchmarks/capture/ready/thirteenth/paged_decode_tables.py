"""Decode attention over a paged cache: block tables and lengths are integer inputs, the longest table is always read."""
import torch
import torch.nn as nn

import graphsafe

PAGE, PAGES, TABLE, HEADS, KV, DIM = 8, 96, 6, 8, 2, 16


class PagedAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.kv = nn.Linear(64, HEADS * DIM, bias=False), nn.Linear(64, 2 * KV * DIM, bias=False)
        self.out = nn.Linear(HEADS * DIM, 64, bias=False)
        self.register_buffer("pages", torch.randn(2, PAGES, PAGE, KV, DIM))

    def forward(self, hidden, block_table, lengths):
        b = len(hidden)
        q = self.q(hidden).view(b, KV, HEADS // KV, DIM)
        keys, values = self.pages[0][block_table.long()], self.pages[1][block_table.long()]
        keys, values = (t.reshape(b, TABLE * PAGE, KV, DIM) for t in (keys, values))
        scores = torch.einsum("bgqd,btgd->bgqt", q, keys) * DIM**-0.5
        live = torch.arange(TABLE * PAGE, device=hidden.device) <= lengths[:, None]
        scores = scores.masked_fill(~live[:, None, None], float("-inf"))
        mixed = torch.einsum("bgqt,btgd->bgqd", scores.softmax(-1), values)
        return self.out(mixed.reshape(b, -1)), torch.logsumexp(scores, -1)


def build(device):
    layer = PagedAttention().to(device).eval().requires_grad_(False)
    hidden = torch.randn(5, 64, device=device)
    table = torch.randperm(PAGES)[: 5 * TABLE].view(5, TABLE).to(device, torch.int32)
    lengths = torch.tensor([7, 40, 22, 47, 15], device=device, dtype=torch.int32)
    return layer, (hidden, table, lengths)
