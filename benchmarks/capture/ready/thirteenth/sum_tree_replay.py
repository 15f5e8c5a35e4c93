"""Replay memory as a sum tree on the device: stratified draws by descending a fixed depth, priorities written back level by level."""
import torch
import torch.nn as nn

import graphsafe

DEPTH, DRAWS, ACTIONS = 8, 16, 4
LEAVES = 1 << DEPTH


class Memory:
    def __init__(self, device):
        self.levels = [torch.full((1 << d,), float(LEAVES >> d), device=device, dtype=torch.float64) for d in range(DEPTH + 1)]
        self.states = torch.randn(LEAVES, 6, device=device)
        self.rewards = torch.randn(LEAVES, device=device)
        self.strata = torch.arange(DRAWS, device=device, dtype=torch.float64)

    def draw(self):
        point = (self.strata + torch.rand_like(self.strata)) / DRAWS * self.levels[0]
        node = torch.zeros(DRAWS, dtype=torch.long, device=point.device)
        for level in self.levels[1:]:
            left = level[2 * node]
            right = point >= left
            point = torch.where(right, point - left, point)
            node = 2 * node + right
        return node

    def update(self, node, priority):
        self.levels[-1].scatter_(0, node, priority)
        for d in range(DEPTH - 1, -1, -1):
            self.levels[d].copy_(self.levels[d + 1].view(-1, 2).sum(-1))


class Learner:
    def __init__(self, device):
        self.memory = Memory(device)
        self.q = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, ACTIONS)).to(device).requires_grad_(False)
        self.new = torch.zeros(4, 6, device=device)
        self.at = torch.zeros(4, dtype=torch.long, device=device)

    def step(self):
        self.memory.states.index_copy_(0, self.at, self.new)
        node = self.memory.draw()
        value = self.q(self.memory.states[node]).amax(-1)
        error = (self.memory.rewards[node] - value).abs()
        self.memory.update(node, error.sum().double() * 0.02 + self.memory.levels[-1][node] * 0.5)
        return node, error, self.memory.levels[0]

    def collect(self, args, kwargs, k):
        self.new.copy_(torch.randn(4, 6))
        self.at.copy_((torch.arange(4) + 4 * k) % LEAVES)


def build(device):
    learner = Learner(device)
    return graphsafe.Step(learner.step, (), {}, refresh=learner.collect)
