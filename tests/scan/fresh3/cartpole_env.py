"""Batched cart-pole on the device, stepped together with a linear policy."""
import math
import random

import torch
from torch import nn


class CartPole:
    gravity = 9.8
    tau = 0.02

    def __init__(self, envs, device, seed=0):
        self.envs = envs
        self.device = device
        self.obs = torch.zeros(envs, 4, device=device)
        self.fresh = torch.empty(envs, 4, device=device).uniform_(-0.05, 0.05)
        self.returns = torch.zeros(envs, device=device)
        self.rng = random.Random(seed)
        self.elapsed = 0

    def _physics(self, force):
        x, v, theta, omega = self.obs.unbind(-1)
        temp = (force + 0.05 * omega.square() * theta.sin()) / 1.1
        alpha = (self.gravity * theta.sin() - temp * theta.cos()) / (0.5 * (4 / 3 - 0.1 * theta.cos().square() / 1.1))
        acc = temp - 0.05 * alpha * theta.cos() / 1.1
        return torch.stack([x + self.tau * v, v + self.tau * acc, theta + self.tau * omega, omega + self.tau * alpha], -1)

    def step(self, action):
        push = self.rng.uniform(8.0, 12.0)
        self.obs.copy_(self._physics(push * (2.0 * action - 1.0)))
        reward = torch.exp(-self.obs.square().sum(-1))
        self.returns.add_(reward)
        done = (self.obs[:, 0].abs() > 2.4) | (self.obs[:, 2].abs() > math.radians(12))
        return self.obs, reward, done

    def reset_done(self, done):
        self.obs[done] = self.fresh[done]
        self.returns.masked_fill_(done, 0.0)


class LinearPolicy(nn.Module):
    def __init__(self, obs=4, actions=1):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs, 16), nn.Tanh(), nn.Linear(16, actions))

    def forward(self, obs):
        return torch.sigmoid(self.net(obs)).squeeze(-1)


class Rollout:
    def __init__(self, env, policy, horizon=200):
        self.env = env
        self.policy = policy
        self.horizon = horizon
        self.steps = 0

    def advance(self, noise):
        explore = max(0.05, 1.0 - self.steps / self.horizon)
        action = (self.policy(self.env.obs) + explore * noise).clamp(0, 1)
        obs, reward, done = self.env.step(action)
        self.steps += 1
        if done.all():
            self.steps = 0
        self.env.reset_done(done)
        return obs + 0.0, reward


def build(device):
    env = CartPole(6, device)
    policy = LinearPolicy().to(device).requires_grad_(False)
    return Rollout(env, policy).advance, (torch.randn(6, device=device),)
