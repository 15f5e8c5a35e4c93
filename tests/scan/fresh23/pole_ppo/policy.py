import torch
from torch import nn


class ObsNorm:
    """Running mean and variance of the observations, updated once per rollout."""

    def __init__(self, dim, device):
        self.mean = torch.zeros(dim, device=device)
        self.var = torch.ones(dim, device=device)
        self.count = 1e-4

    def update(self, batch):
        n = batch.shape[0]
        delta = batch.mean(0) - self.mean
        total = self.count + n
        m2 = self.var * self.count + batch.var(0, unbiased=False) * n
        m2 = m2 + delta.square() * self.count * n / total
        self.mean = self.mean + delta * n / total
        self.var = m2 / total
        self.count = total

    def __call__(self, obs):
        return ((obs - self.mean) * torch.rsqrt(self.var + 1e-8)).clamp(-5.0, 5.0)


class ActorCritic(nn.Module):
    def __init__(self, obs_dim, hidden=32):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs_dim, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.mu = nn.Linear(hidden, 1)
        self.value = nn.Linear(hidden, 1)
        self.log_std = nn.Parameter(torch.zeros(1))

    def forward(self, obs):
        h = self.trunk(obs)
        return self.mu(h).squeeze(-1), self.value(h).squeeze(-1)

    def log_prob(self, mu, action):
        return -0.5 * ((action - mu) / self.log_std.exp()).square() - self.log_std
