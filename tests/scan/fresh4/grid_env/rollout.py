from __future__ import annotations

import torch
from torch import nn

from .spawn import Spawner
from .world import GridWorld


class Policy(nn.Module):
    def __init__(self, hidden: int = 24):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, hidden), nn.Tanh(), nn.Linear(hidden, 4))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.body(obs)


class Rollout:
    def __init__(self, policy: Policy, world: GridWorld, length: int = 2):
        self.policy, self.world, self.length = policy, world, length

    @torch.no_grad()
    def __call__(self, noise: torch.Tensor):
        rewards = []
        obs = self.world.observe()
        for t in range(self.length):
            action = (self.policy(obs) + noise[t]).argmax(-1)
            obs, reward, _ = self.world.step(action)
            rewards.append(reward)
        return obs, torch.stack(rewards)


def build(device):
    world = GridWorld(16, size=9, limit=20, device=device, spawner=Spawner(9, seed=3))
    return Rollout(Policy().to(device), world), (torch.rand(2, 16, 4, device=device),)
