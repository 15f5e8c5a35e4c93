"""An agent with a memory in a host environment, which steps by the agent's last action; episodes end and memory is cleared."""
import numpy as np
import torch
from torch import nn

import graphsafe


class World:
    def __init__(self):
        self.random = np.random.default_rng(5)
        self.where = np.zeros(4, dtype=np.float32)
        self.age = 0

    def move(self, action):
        self.age += 1
        self.where = self.where + 0.1 * (action - 1) + 0.05 * self.random.standard_normal(4).astype(np.float32)
        over = self.age > 23 or np.abs(self.where).max() > 2
        if over:
            self.where, self.age = np.zeros(4, dtype=np.float32), 0
        return self.where, over


class Agent(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.cell, self.head = nn.GRUCell(4, 12), nn.Linear(12, 3)
        self.register_buffer("memory", torch.zeros(1, 12))
        self.register_buffer("action", torch.zeros(1, dtype=torch.long))
        self.to(device).requires_grad_(False)

    def forward(self, seen):
        self.memory.copy_(self.cell(seen, self.memory))
        scores = self.head(self.memory)
        self.action.copy_(scores.argmax(-1))
        return scores


def build(device):
    agent, world = Agent(device), World()

    def refresh(args, kwargs, k):
        where, over = world.move(int(agent.action.cpu()))
        if over:
            agent.memory.zero_()
        args[0].copy_(torch.from_numpy(where).view(1, 4))

    return graphsafe.Step(agent, (torch.zeros(1, 4, device=device),), refresh=refresh, reset=agent.memory.zero_)
