"""Second-stage ranker with a short list of constant length."""
from __future__ import annotations

import logging
from collections import ChainMap
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

log = logging.getLogger(__name__)

COLUMNS = ("price", "age", "clicks", "views", "rating", "margin", "stock", "returns")
DEFAULTS = {"columns": ("clicks", "views", "rating", "margin"), "floor": -0.5, "keep": 10, "pinned_score": 50.0}


@dataclass
class Candidates:
    items: torch.Tensor
    category: torch.Tensor
    features: torch.Tensor

    def __len__(self) -> int:
        return self.items.shape[0]

    def __getitem__(self, what: torch.Tensor) -> "Candidates":
        return Candidates(self.items[what], self.category[what], self.features[what])


class ColumnPicker(nn.Module):
    def __init__(self, names):
        super().__init__()
        self.register_buffer("index", torch.tensor([COLUMNS.index(n) for n in names]), persistent=False)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return features[:, self.index]


class Scorer(nn.Module):
    def __init__(self, items: int, categories: int, columns: int, dim: int = 32):
        super().__init__()
        self.categories = categories
        self.item = nn.Embedding(items, dim)
        self.wide = nn.Parameter(torch.randn(categories, dim) * 0.1)
        self.deep = nn.Sequential(nn.Linear(columns + dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, items, category, dense):
        hot = F.one_hot(category, self.categories).to(dense.dtype)
        mixed = self.item(items) + hot @ self.wide
        return self.deep(torch.cat((dense, mixed), -1)).squeeze(-1)


class Ranker(nn.Module):
    def __init__(self, items: int, categories: int, **options):
        super().__init__()
        self.options = ChainMap(options, DEFAULTS)
        self.columns = ColumnPicker(self.options["columns"])
        self.scorer = Scorer(items, categories, len(self.options["columns"]))

    def score(self, c: Candidates) -> torch.Tensor:
        return self.scorer(c.items, c.category, self.columns(c.features))

    def forward(self, items, category, features, pinned):
        pool = Candidates(items, category, features)
        scores = self.score(pool)
        scores.index_fill_(0, pinned, self.options["pinned_score"])
        log.debug("scored %d candidates of %d columns", len(pool), features.shape[1])
        ranked = torch.where(scores > self.options["floor"], scores, float("-inf"))
        top, order = ranked.topk(self.options["keep"])
        valid = top > float("-inf")
        return torch.where(valid, pool[order].items, -1), top, valid.sum()


def build(device, candidates: int = 64):
    torch.manual_seed(5)
    ranker = Ranker(1000, 12, keep=8).to(device).eval().requires_grad_(False)
    items = torch.randperm(1000, device=device)[:candidates]
    category = torch.randint(0, 12, (candidates,), device=device)
    features = torch.randn(candidates, len(COLUMNS), device=device)
    pinned = torch.tensor([3, 17], device=device)
    return ranker, (items, category, features, pinned)
