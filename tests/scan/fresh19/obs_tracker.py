import torch
from torch import nn


class ObsNorm(nn.Module):
    """Running observation statistics in the manner of many RL code bases."""

    def __init__(self, size: int, clip: float = 5.0):
        super().__init__()
        self.clip = clip
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("var", torch.ones(size))
        self.seen = 1.0

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        n = obs.shape[0]
        delta = obs.mean(0) - self.mean
        total = self.seen + n
        self.var = (self.var * self.seen + obs.var(0, unbiased=False) * n + delta.square() * self.seen * n / total) / total
        self.mean = self.mean + delta * n / total
        self.seen = total
        return ((obs - self.mean) / (self.var + 1e-6).sqrt()).clamp(-self.clip, self.clip)


class Critic(nn.Module):
    def __init__(self, size: int, hidden: int):
        super().__init__()
        self.norm = ObsNorm(size)
        self.body = nn.Sequential(nn.Linear(size, hidden), nn.ELU(), nn.Linear(hidden, 1))
        self.baseline = None

    def forward(self, obs: torch.Tensor, reward: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        value = self.body(self.norm(obs)).squeeze(-1)
        if self.baseline is None:
            self.baseline = reward.mean()
        return value, reward - self.baseline - value


def build(device):
    torch.manual_seed(2)
    critic = Critic(6, 16).to(device).requires_grad_(False)
    return critic, (torch.randn(10, 6, device=device), torch.randn(10, device=device))
