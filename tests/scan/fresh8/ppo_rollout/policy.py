import random

import torch
from torch import nn


class Actor(nn.Module):
    def __init__(self, seen: int, moves: int, width: int = 64, spread: float = 0.2):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(seen, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.mean = nn.Linear(width, moves)
        self.worth = nn.Linear(width, 1)
        self.log_std = nn.Parameter(torch.zeros(moves))
        self.spread = spread

    def forward(self, obs: torch.Tensor):
        h = self.trunk(obs)
        return self.mean(h), self.log_std.exp(), self.worth(h).squeeze(-1)

    def explore(self, obs: torch.Tensor):
        mean, std, worth = self(obs)
        boost = 1.0 + random.uniform(-self.spread, self.spread)
        noise = torch.randn_like(mean)
        action = mean + boost * std * noise
        logp = (-0.5 * noise.square() - std.log()).sum(-1)
        return action, logp, worth
