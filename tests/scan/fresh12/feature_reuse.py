"""A denoiser that reuses its deep features on two of three steps."""
import torch
import torch.nn as nn


class Deep(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        return self.net(x)


class FeatureCache:
    def __init__(self, every: int):
        self.every = every
        self.calls = 0
        self.kept = None

    def due(self) -> bool:
        fresh = self.calls % self.every == 0
        self.calls += 1
        return fresh or self.kept is None


class Denoiser(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.first = nn.Linear(dim, dim)
        self.deep = Deep(dim)
        self.last = nn.Linear(dim, dim)
        self.cache = FeatureCache(every=3)
        self.steps = 20
        self.index = 0

    def forward(self, x):
        h = torch.tanh(self.first(x))
        if self.cache.due():
            self.cache.kept = self.deep(h)
        noise = self.last(h + self.cache.kept)
        weight = 1.0 - self.index / self.steps
        self.index = min(self.index + 1, self.steps - 1)
        x.sub_(weight * noise)
        return x


def build(device):
    torch.manual_seed(8)
    model = Denoiser(16).to(device).eval().requires_grad_(False)
    return model, (torch.randn(2, 16, device=device),)
