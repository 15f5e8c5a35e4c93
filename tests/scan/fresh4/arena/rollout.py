from __future__ import annotations

import torch
from torch import nn

from .game import Arena


class Policy(nn.Module):
    def __init__(self, hidden: int = 24):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, hidden), nn.Tanh(), nn.Linear(hidden, 4))

    def forward(self, obs):
        return self.body(obs)


class Rollout:
    """Steps every game `length` times and adds what happened to running totals."""

    def __init__(self, policy: Policy, arena: Arena, length: int = 3):
        self.policy, self.arena, self.length = policy, arena, length
        self.finished = torch.zeros((), dtype=torch.long, device=arena.pos.device)

    @torch.no_grad()
    def __call__(self, noise: torch.Tensor):
        rewards = []
        for t in range(self.length):
            action = (self.policy(self.arena.observe()) + noise[t]).argmax(-1)
            outcome = self.arena.step(action)
            rewards.append(outcome.reward)
            self.finished.add_(outcome.ended.sum())
        return torch.stack(rewards) / len(outcome)


def build(device, length: int = 3):
    arena = Arena(16, size=9, limit=20, device=device)
    rollout = Rollout(Policy().to(device), arena, length)
    return rollout, (torch.rand(length, 16, 4, device=device),)
