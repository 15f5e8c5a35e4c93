"""Ranking model of a feed: dense tower, id embeddings, freshness and diversity."""
import time

import torch
from torch import nn


class FeatureSelect(nn.Module):
    def __init__(self, width, keep):
        super().__init__()
        self.keep = sorted(keep)
        self.scale = nn.Parameter(torch.ones(len(keep)))
        self.width = width

    def forward(self, dense):
        return dense[:, self.keep] * self.scale


class Shuffle(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.perm = torch.randperm(width)

    def forward(self, x):
        return x[:, self.perm]


class Freshness:
    def __init__(self, half_life=3600.0):
        self.half_life = half_life
        self.epoch = time.time()

    def weight(self, age):
        now = time.time() - self.epoch
        return torch.exp2(-(age + now) / self.half_life)


class IdTower(nn.Module):
    def __init__(self, items, dim):
        super().__init__()
        self.table = nn.Embedding(items, dim)

    def forward(self, ids):
        distinct, back = torch.unique(ids, return_inverse=True)
        return self.table(distinct)[back]


class Tower(nn.Module):
    def __init__(self, width=10, items=64, dim=8):
        super().__init__()
        self.select = FeatureSelect(width, {0, 2, 3, 7, 9})
        self.shuffle = Shuffle(5)
        self.ids = IdTower(items, dim)
        self.dense = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, dim))
        self.freshness = Freshness()

    def forward(self, dense, ids, age):
        user = self.dense(self.shuffle(self.select(dense)))
        score = (user * self.ids(ids)).sum(-1)
        return score * self.freshness.weight(age)


class Ranker:
    registry = {"tower": Tower}

    def __init__(self, model):
        self.model = model

    @classmethod
    def create(cls, name, device):
        return cls(cls.registry[name]().to(device).eval().requires_grad_(False))

    def rank(self, dense, ids, age):
        score = self.model(dense, ids, age)
        order = score.argsort(descending=True)
        return order, score[order]


def build(device):
    ranker = Ranker.create("tower", device)
    dense = torch.randn(20, 10, device=device)
    ids = torch.randint(0, 64, (20,), device=device)
    age = torch.rand(20, device=device) * 100
    return ranker.rank, (dense, ids, age)
