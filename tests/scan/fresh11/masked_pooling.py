"""Sentence embeddings: masked pooling whose lengths stay on the device."""
from collections import OrderedDict
from typing import Callable

import torch
import torch.nn as nn
import torch.nn.functional as F

POOLERS: dict[str, Callable] = OrderedDict()


def pooler(name: str):
    def keep(fn):
        POOLERS[name] = fn
        return fn

    return keep


@pooler("mean")
def mean_pool(h, mask):
    return (h * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


@pooler("max")
def max_pool(h, mask):
    return h.masked_fill(mask.unsqueeze(-1) == 0, -1e4).amax(1)


@pooler("last")
def last_pool(h, mask):
    last = (mask.sum(1).long() - 1).clamp(min=0)
    return h.gather(1, last.view(-1, 1, 1).expand(-1, 1, h.shape[-1])).squeeze(1)


class SentenceEncoder(nn.Module):
    def __init__(self, vocab: int, dim: int, length: int, poolers=("mean", "max", "last")):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.Conv1d(dim, dim, 3, padding=1)
        self.poolers = [POOLERS[p] for p in poolers]
        self.register_buffer("ticks", torch.arange(length), persistent=False)

    def forward(self, ids, lengths):
        mask = (self.ticks[: ids.shape[1]] < lengths.unsqueeze(1)).float()
        h = self.embed(ids) * mask.unsqueeze(-1)
        h = torch.relu(self.mix(h.transpose(1, 2))).transpose(1, 2)
        parts = [pool(h, mask) for pool in self.poolers]
        return F.normalize(torch.cat(parts, dim=-1), dim=-1)


def build(device):
    torch.manual_seed(54)
    model = SentenceEncoder(80, 16, 20).to(device).eval().requires_grad_(False)
    ids = torch.randint(0, 80, (5, 18), device=device)
    lengths = torch.randint(1, 19, (5,), device=device)
    return model, (ids, lengths)


if __name__ == "__main__":
    fn, args = build(torch.device("cuda"))
    print(fn(*args) @ fn(*args).t())
