"""Second-stage ranker: candidate features in, a short list out."""
from __future__ import annotations

import logging
import operator
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

    def __getitem__(self, what) -> "Candidates":
        pick = operator.itemgetter(what)
        return Candidates(pick(self.items), pick(self.category), pick(self.features))


class ColumnPicker:
    def __init__(self, names):
        self.index = torch.tensor([COLUMNS.index(n) for n in names])

    def __call__(self, features: torch.Tensor) -> torch.Tensor:
        return features[:, self.index]


class Scorer(nn.Module):
    def __init__(self, items: int, categories: int, columns: int, dim: int = 32):
        super().__init__()
        self.item = nn.Embedding(items, dim)
        self.wide = nn.Parameter(torch.randn(categories, dim) * 0.1)
        self.deep = nn.Sequential(nn.Linear(columns + dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, items, category, dense):
        hot = F.one_hot(category).to(dense.dtype)
        mixed = self.item(items) + hot @ self.wide[: hot.shape[-1]]
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
        scores[pinned] = self.options["pinned_score"]
        log.debug(f"scored {len(pool)} candidates, best {scores.max():.3f}")
        keep = scores > self.options["floor"]
        short, kept = pool[keep], operator.getitem(scores, keep)
        order = kept.argsort(descending=True)[: self.options["keep"]]
        return short.items[order], kept[order]


def build(device, candidates: int = 64):
    torch.manual_seed(5)
    ranker = Ranker(1000, 12, keep=8).to(device).eval().requires_grad_(False)
    items = torch.randperm(1000, device=device)[:candidates]
    category = torch.randint(0, 12, (candidates,), device=device)
    features = torch.randn(candidates, len(COLUMNS), device=device)
    pinned = torch.tensor([3, 17], device=device)
    return ranker, (items, category, features, pinned)
