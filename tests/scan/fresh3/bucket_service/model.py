import torch
from torch import nn


class PagedDecoder(nn.Module):
    """One attention layer over a flat cache whose slot 0 belongs to padding rows."""

    def __init__(self, dim=16, slots=128):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.register_buffer("keys", torch.zeros(slots, dim))
        self.register_buffer("values", torch.zeros(slots, dim))
        self.register_buffer("steps", torch.arange(slots))

    def forward(self, x, table, lengths, span):
        q, k, v = self.qkv(x).chunk(3, -1)
        slot = table.gather(1, (lengths - 1).unsqueeze(1)).squeeze(1)
        self.keys.index_copy_(0, slot, k)
        self.values.index_copy_(0, slot, v)
        window = table[:, :span]
        scores = torch.einsum("bd,btd->bt", q, self.keys[window])
        scores = scores.masked_fill(self.steps[:span] >= lengths.unsqueeze(1), float("-inf"))
        return x + self.out(torch.einsum("bt,btd->bd", scores.softmax(-1), self.values[window]))
