"""Q-learning from a memory on the device."""
import random

import torch
import torch.nn.functional as F
from torch import nn


class Memory:
    def __init__(self, size, dim, device):
        self.obs = torch.randn(size, dim, device=device)
        self.reward = torch.zeros(size, device=device)
        self.size = size

    def draw(self, count):
        start = random.randrange(self.size - count)
        return self.obs[start : start + count], self.reward[start : start + count]


class Priorities:
    def __init__(self, size, device):
        self.value = torch.ones(size, device=device)
        self.cursor = 0

    def mark(self, error):
        self.value[self.cursor % self.value.numel()] = 0.5
        self.cursor += 1
        return self.value.sum() * error.mean()


class QNet(nn.Module):
    def __init__(self, dim, actions):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(dim, 32), nn.ReLU(), nn.Linear(32, actions))

    def forward(self, x):
        return self.body(x)


class Learner:
    def __init__(self, net, target, memory, priorities):
        self.net, self.target = net, target
        self.memory, self.priorities = memory, priorities

    @torch.no_grad()
    def td_error(self, noise):
        obs, reward = self.memory.draw(noise.shape[0])
        best = self.target(obs + noise).amax(-1)
        now = self.net(obs).amax(-1)
        error = F.smooth_l1_loss(now, reward + 0.9 * best, reduction="none")
        return error, self.priorities.mark(error)


def build(device):
    learner = Learner(QNet(6, 3).to(device), QNet(6, 3).to(device), Memory(64, 6, device), Priorities(64, device))
    return learner.td_error, (torch.randn(8, 6, device=device) * 0.01,)
