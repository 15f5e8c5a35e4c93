"""Acting side of PPO: normalise observations, draw actions, return log-probabilities."""
from __future__ import annotations

import torch
from torch import nn
from torch.distributions import Independent, Normal


class RunningNorm:
    """Streaming mean and variance of the observations."""

    def __init__(self, dim: int, device: torch.device):
        self.mean = torch.zeros(dim, device=device)
        self.var = torch.ones(dim, device=device)
        self.count = torch.ones((), device=device)

    def update(self, x: torch.Tensor) -> None:
        self.count.add_(x.shape[0])
        weight = x.shape[0] / self.count
        mean, var = x.mean(0), x.var(0, correction=0)
        delta = mean - self.mean
        self.mean, self.var = (
            self.mean + weight * delta,
            self.var + weight * (var - self.var) + weight * (1 - weight) * delta.square(),
        )

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return (x - self.mean) * (self.var + 1e-6).rsqrt()


class Policy(nn.Module):
    def __init__(self, obs: int, act: int):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, 32), nn.Tanh(), nn.Linear(32, act))
        self.log_std = nn.Parameter(torch.full((act,), -0.5))

    def forward(self, obs: torch.Tensor) -> Independent:
        mean = self.body(obs)
        return Independent(Normal(mean, self.log_std.exp().expand_as(mean)), 1)


class Actor:
    def __init__(self, policy: Policy, norm: RunningNorm, bounds: tuple[float, float]):
        self.policy, self.norm = policy, norm
        self.low, self.high = bounds
        self.summary: list[float] = []

    @torch.no_grad()
    def __call__(self, obs: torch.Tensor):
        self.norm.update(obs)
        dist = self.policy(self.norm(obs))
        action = dist.rsample()
        logp = dist.log_prob(action)
        entropy = dist.entropy()
        self.summary = list(map(float, (logp.mean(), entropy.mean())))
        return action.clamp(self.low, self.high), logp


def build(device):
    torch.manual_seed(5)
    actor = Actor(Policy(6, 3).to(device), RunningNorm(6, device), bounds=(-1.0, 1.0))
    return actor, (torch.randn(20, 6, device=device),)
