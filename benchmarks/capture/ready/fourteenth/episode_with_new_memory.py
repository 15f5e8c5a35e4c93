"""An agent with a memory in a small world; when the world says that the episode is over, the agent begins another."""
import torch
from torch import nn

import graphsafe


class World:
    """A host environment: a point drifts, and an episode ends where it leaves the field."""

    def __init__(self, seed):
        self.random = torch.Generator().manual_seed(seed)
        self.reset()

    def reset(self):
        self.where = torch.zeros(4)
        return self.where

    def move(self):
        self.where = self.where + 0.02 + 0.03 * torch.randn(4, generator=self.random)
        return self.where, bool(self.where.abs().max() > 1.6)


class Agent(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.cell, self.head = nn.GRUCell(4, 12), nn.Linear(12, 3)
        self.to(device).requires_grad_(False)
        self.device = device
        self.begin()

    def begin(self):
        self.memory = torch.zeros(1, 12, device=self.device)

    def forward(self, seen):
        self.memory.copy_(self.cell(seen, self.memory))
        return self.head(self.memory).softmax(-1)


def build(device):
    agent, world = Agent(device), World(3)

    def refresh(args, kwargs, k):
        where, over = world.move()
        if over:
            where = world.reset()
            agent.begin()
        args[0].copy_(where.view(1, 4))

    return graphsafe.Step(agent, (torch.zeros(1, 4, device=device),), refresh=refresh)
