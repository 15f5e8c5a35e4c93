"""Ranking model with a user tower and an item tower that run side by side."""
import random

import torch
from torch import nn


class SequenceTower(nn.Module):
    def __init__(self, items: int, dim: int):
        super().__init__()
        self.table = nn.Embedding(items, dim)
        self.score = nn.Linear(dim, 1)

    def forward(self, history, lengths):
        x = self.table(history[:, : lengths.max()])
        steps = torch.arange(x.shape[1], device=x.device)
        logit = self.score(x).squeeze(-1).masked_fill(steps >= lengths[:, None], float("-inf"))
        return (logit.softmax(-1)[..., None] * x).sum(1)


class ItemTower(nn.Module):
    def __init__(self, items: int, dim: int):
        super().__init__()
        self.table = nn.Embedding(items, dim)
        self.net = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, candidates):
        return self.net(self.table(candidates))


class Ranker(nn.Module):
    def __init__(self, items: int = 50, dim: int = 16, explore: float = 0.3, keep: int = 4):
        super().__init__()
        self.user = SequenceTower(items, dim)
        self.item = ItemTower(items, dim)
        self.bias = nn.Parameter(torch.randn(items) * 0.1)
        self.explore, self.keep = explore, keep
        self.side = None

    def attach(self, device):
        self.side = torch.cuda.Stream(device)
        return self

    def forward(self, history, lengths, candidates):
        main = torch.cuda.current_stream(history.device)
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            items = self.item(candidates)
            items = nn.functional.normalize(items, dim=-1)
        user = nn.functional.normalize(self.user(history, lengths), dim=-1)
        scores = torch.einsum("bd,bcd->bc", user, items) + self.bias[candidates]
        if random.random() < self.explore:
            scores = scores + 0.5 * torch.rand_like(scores)
        top, order = scores.topk(self.keep, dim=1)
        return top, candidates.gather(1, order)


@torch.no_grad()
def warm_tables(model: Ranker):
    for table in (model.user.table, model.item.table):
        table.weight.mul_(0.5)


def build(device, batch: int = 3):
    torch.manual_seed(9)
    model = Ranker().to(device).eval().requires_grad_(False).attach(device)
    warm_tables(model)
    history = torch.randint(0, 50, (batch, 12), device=device)
    lengths = torch.randint(1, 13, (batch,), device=device)
    candidates = torch.randint(0, 50, (batch, 10), device=device)
    return model, (history, lengths, candidates)
