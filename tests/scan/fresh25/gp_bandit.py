"""Gaussian-process upper-confidence search over a fixed candidate grid."""
import math

import torch


def matern52(a: torch.Tensor, b: torch.Tensor, scale) -> torch.Tensor:
    r = torch.cdist(a, b) / scale
    root = math.sqrt(5.0) * r
    return (1 + root + root * root / 3) * torch.exp(-root)


class Window:
    """The last `size` observations in a ring of device rows."""

    def __init__(self, size: int, dim: int, device):
        self.points = torch.rand(size, dim, device=device)
        self.values = torch.zeros(size, device=device)
        self.slot = torch.zeros(1, dtype=torch.int64, device=device)

    def insert(self, point: torch.Tensor, value: torch.Tensor) -> None:
        self.points.index_copy_(0, self.slot, point.view(1, -1))
        self.values.index_copy_(0, self.slot, value.view(1))
        self.slot.add_(1).remainder_(self.values.numel())


class Surrogate:
    def __init__(self, candidates: torch.Tensor, window: Window, noise: float = 1e-2):
        self.candidates = candidates
        self.window = window
        self.noise = noise
        self.jitter = noise * torch.eye(window.values.numel(), device=candidates.device)
        self.anchor_rows = list(range(0, candidates.shape[0], 37))
        self.scale = None

    def lengthscale(self) -> torch.Tensor:
        if self.scale is None:
            self.scale = torch.cdist(self.window.points, self.window.points).median().clamp_min(0.1)
        return self.scale

    def posterior(self):
        scale = self.lengthscale()
        gram = matern52(self.window.points, self.window.points, scale) + self.jitter
        factor = torch.linalg.cholesky(gram)
        cross = matern52(self.window.points, self.candidates, scale)
        half = torch.linalg.solve_triangular(factor, cross, upper=False)
        target = torch.linalg.solve_triangular(factor, self.window.values.unsqueeze(-1), upper=False)
        mean = (half * target).sum(0)
        variance = (1.0 - half.square().sum(0)).clamp_min(1e-6)
        return mean, variance

    def coverage(self, variance: torch.Tensor) -> torch.Tensor:
        return variance[self.anchor_rows].mean()


class Bandit:
    def __init__(self, surrogate: Surrogate, width: float = 1.8):
        self.surrogate = surrogate
        self.width = width
        self.trail = []

    def smooth(self, mean: torch.Tensor) -> torch.Tensor:
        self.trail.append(mean)
        recent = torch.stack(self.trail[-4:])
        return recent.mean(0)

    @torch.no_grad()
    def suggest(self, point: torch.Tensor, value: torch.Tensor):
        self.surrogate.window.insert(point, value)
        mean, variance = self.surrogate.posterior()
        bound = self.smooth(mean) + self.width * variance.sqrt()
        chosen = self.surrogate.candidates.index_select(0, bound.argmax().view(1)).squeeze(0)
        return chosen, bound.amax(), self.surrogate.coverage(variance)


def build(device):
    generator = torch.Generator().manual_seed(5)
    candidates = torch.rand(400, 3, generator=generator).to(device)
    window = Window(48, 3, device)
    bandit = Bandit(Surrogate(candidates, window))
    return bandit.suggest, (torch.rand(3, device=device), torch.rand((), device=device))
