"""Two-tower interaction with one head for each surface of the product."""
import torch
from torch import nn


class Ranker(nn.Module):
    def __init__(self, registry, width, n_dense, surfaces):
        super().__init__()
        self.registry = registry
        self.dense = nn.Sequential(nn.Linear(n_dense, width), nn.ReLU())
        self.cross = nn.Linear(3 * width, width)
        self.heads = nn.ModuleDict({s: nn.Linear(width, 1) for s in surfaces})

    def forward(self, user, item, dense, blocked, surface):
        u = self.registry.lookup("user", user)
        v = self.registry.lookup("item", item)
        h = torch.relu(self.cross(torch.cat([u * v, u + v, self.dense(dense)], dim=-1)))
        score = self.heads[surface](h).squeeze(-1)
        return score.masked_fill(blocked, float("-inf"))
