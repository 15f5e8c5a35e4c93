"""SAC-style critic update from a replay buffer on the device; the write position is a Python int of the agent."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class ReplayBuffer:
    def __init__(self, size, obs, act, device):
        self.obs = torch.zeros(size, obs, device=device)
        self.act = torch.zeros(size, act, device=device)
        self.rew = torch.zeros(size, device=device)
        self.size, self.ptr, self.full = size, 0, False

    def add(self, obs, act, rew):
        n = obs.shape[0]
        self.obs[self.ptr : self.ptr + n].copy_(obs)
        self.act[self.ptr : self.ptr + n].copy_(act)
        self.rew[self.ptr : self.ptr + n].copy_(rew)
        self.ptr = (self.ptr + n) % self.size
        self.full = self.full or self.ptr == 0

    def sample(self, n):
        high = self.size if self.full else self.ptr
        idx = torch.randint(0, high, (n,), device=self.obs.device)
        return self.obs[idx], self.act[idx], self.rew[idx]


class Agent:
    def __init__(self, device, tau=0.01):
        self.critic = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1)).to(device)
        self.target = copy.deepcopy(self.critic).requires_grad_(False)
        self.opt = torch.optim.Adam(self.critic.parameters(), lr=1e-3, capturable=True)
        self.buffer = ReplayBuffer(256, 4, 2, device)
        self.tau = tau

    def update(self):
        obs, act, rew = self.buffer.sample(16)
        sa = torch.cat([obs, act], -1)
        with torch.no_grad():
            goal = rew + 0.99 * self.target(sa).squeeze(-1)
        loss = F.mse_loss(self.critic(sa).squeeze(-1), goal)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            for t, p in zip(self.target.parameters(), self.critic.parameters()):
                t.lerp_(p, self.tau)
        return loss.detach()


def build(device):
    torch.manual_seed(6)
    agent = Agent(device)
    agent.buffer.add(torch.randn(8, 4), torch.randn(8, 2), torch.randn(8))

    def refresh(args, kwargs, k):  # the environment's step
        agent.buffer.add(torch.randn(8, 4), torch.randn(8, 2), torch.randn(8))

    return graphsafe.Step(agent.update, (), refresh=refresh)
