"""A recommender whose rare ids share rows; the map from id to row is a dictionary on the host."""

import torch
import torch.nn as nn


class IdTable(nn.Module):
    def __init__(self, rows, width, spare=8):
        super().__init__()
        self.rows = rows
        self.spare = spare
        self.weight = nn.Parameter(torch.randn(rows + spare, width) * 0.1)
        self.known = {}
        self.register_buffer("hits", torch.zeros(rows + spare))

    def row(self, number):
        if number not in self.known and len(self.known) < self.rows:
            self.known[number] = len(self.known)
        return self.known.get(number, self.rows + number % self.spare)

    def forward(self, ids):
        rows = [[self.row(number) for number in bag] for bag in ids.tolist()]
        index = torch.tensor(rows, device=ids.device)
        seen = torch.nn.functional.one_hot(index, self.weight.shape[0]).sum((0, 1))
        self.hits = self.hits + seen
        return self.weight[index].mean(1)


class Interaction(nn.Module):
    def forward(self, vectors):
        product = vectors @ vectors.transpose(1, 2)
        first, second = torch.triu_indices(vectors.shape[1], vectors.shape[1], 1, device=vectors.device)
        return product[:, first, second]


class Ranker(nn.Module):
    def __init__(self, width=16, dense=6):
        super().__init__()
        self.users = IdTable(20, width)
        self.items = IdTable(40, width)
        self.bottom = nn.Sequential(nn.Linear(dense, 32), nn.ReLU(), nn.Linear(32, width))
        self.cross = Interaction()
        self.top = nn.Sequential(nn.Linear(width + 3, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, dense, users, items):
        x = self.bottom(dense)
        vectors = torch.stack([x, self.users(users), self.items(items)], 1)
        return self.top(torch.cat([x, self.cross(vectors)], -1)).squeeze(-1).sigmoid()


def build(device):
    torch.manual_seed(24)
    ranker = Ranker().to(device).eval().requires_grad_(False)
    dense = torch.randn(12, 6, device=device)
    users = torch.randint(0, 100, (12, 1), device=device)
    items = torch.randint(0, 300, (12, 5), device=device)
    return ranker, (dense, users, items)
