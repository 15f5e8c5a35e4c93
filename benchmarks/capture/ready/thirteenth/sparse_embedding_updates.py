"""Recommendation model: embeddings with sparse gradients under SparseAdam, the dense part under SGD."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Recommender(nn.Module):
    def __init__(self, users=300, items=500, width=16):
        super().__init__()
        self.users = nn.Embedding(users, width, sparse=True)
        self.items = nn.Embedding(items, width, sparse=True)
        self.mlp = nn.Sequential(nn.Linear(2 * width, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, user, item):
        return self.mlp(torch.cat([self.users(user), self.items(item)], -1)).squeeze(-1)


def build(device):
    model = Recommender().to(device)
    sparse = torch.optim.SparseAdam([*model.users.parameters(), *model.items.parameters()], lr=1e-2)
    dense = torch.optim.SGD(model.mlp.parameters(), lr=0.05, momentum=0.9)
    user, item = torch.randint(300, (128,), device=device), torch.randint(500, (128,), device=device)
    click = torch.rand(128, device=device).round()

    def step(user, item, click):
        sparse.zero_grad()
        dense.zero_grad()
        loss = F.binary_cross_entropy_with_logits(model(user, item), click)
        loss.backward()
        sparse.step()
        dense.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(300, (128,)))
        args[1].copy_(torch.randint(500, (128,)))
        args[2].copy_(torch.rand(128).round())

    return graphsafe.Step(step, (user, item, click), {}, refresh=refresh)
