"""Batched pendulum with device-side resets, stepped together with its policy."""
import math
import random

import torch
from torch import nn


class Pendulum:
    gravity = 10.0
    dt = 0.05

    def __init__(self, envs, device, seed=0):
        picker = random.Random(seed)
        starts = [[picker.uniform(-math.pi, math.pi), picker.uniform(-1, 1)] for _ in range(envs)]
        self.state = torch.tensor(starts, device=device)
        self.noise = torch.empty(envs, 2, device=device)
        self.age = torch.zeros(envs, dtype=torch.long, device=device)
        self.returns = torch.zeros(envs, device=device)
        self.best = torch.full((), -1e9, device=device)
        self.max_steps = 200

    def observe(self):
        theta, omega = self.state.unbind(-1)
        return torch.stack([theta.cos(), theta.sin(), omega], -1)

    def step(self, torque):
        theta, omega = self.state.unbind(-1)
        cost = ((theta + math.pi).remainder(2 * math.pi) - math.pi).square() + 0.1 * omega.square()
        omega = (omega + (1.5 * self.gravity * theta.sin() + 3.0 * torque) * self.dt).clamp(-8.0, 8.0)
        self.state.copy_(torch.stack([theta + omega * self.dt, omega], -1))
        self.age.add_(1)
        self.returns.sub_(cost)
        return -cost, self.age >= self.max_steps

    def reset_done(self, done):
        self.best.copy_(torch.maximum(self.best, torch.where(done, self.returns, self.best).amax()))
        fresh = self.noise.uniform_(-1.0, 1.0)
        self.state.copy_(torch.where(done.unsqueeze(1), fresh, self.state))
        self.returns[done] = 0.0
        self.age.masked_fill_(done, 0)

    def summary(self):
        ended = self.age[self.age == 0]
        return {"best": self.best.item(), "fresh": ended.numel()}


class Policy(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, obs):
        return 2.0 * torch.tanh(self.net(obs)).squeeze(-1)


class Rollout:
    def __init__(self, env, policy, decay=0.999):
        self.env = env
        self.policy = policy
        self.decay = decay
        self.explore = torch.ones((), device=env.state.device)

    def advance(self, noise):
        action = self.policy(self.env.observe()) + self.explore * noise
        reward, done = self.env.step(action.clamp(-2, 2))
        self.explore.mul_(self.decay).clamp_(min=0.05)
        self.env.reset_done(done)
        return reward, done


def report(rollout):
    facts = rollout.env.summary()
    print(f"best {facts['best']:.2f}, exploration {rollout.explore.item():.3f}")


def build(device):
    env = Pendulum(6, device)
    policy = Policy().to(device).requires_grad_(False)
    return Rollout(env, policy).advance, (torch.randn(6, device=device),)
