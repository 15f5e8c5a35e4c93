"""Bootstrap particle filter for a bearing-only tracker."""
from __future__ import annotations

import random
from abc import ABC, abstractmethod

import numpy as np
import torch


class Health:
    """Effective sample size as a fraction; true while the cloud is healthy."""

    __slots__ = ("fraction", "floor")

    def __init__(self, weights: torch.Tensor, floor: float):
        self.fraction = 1.0 / (weights.square().sum() * weights.numel())
        self.floor = floor

    def __bool__(self) -> bool:
        return bool(self.fraction >= self.floor)


class Resampler(ABC):
    registry: dict[str, type["Resampler"]] = {}

    def __init_subclass__(cls, *, tag: str, **kw):
        super().__init_subclass__(**kw)
        Resampler.registry[tag] = cls

    @abstractmethod
    def positions(self, count: int, like: torch.Tensor) -> torch.Tensor: ...

    def ancestors(self, weights: torch.Tensor) -> torch.Tensor:
        ladder = weights.cumsum(0)
        ladder = ladder / ladder[-1:]
        u = self.positions(weights.numel(), weights)
        return torch.searchsorted(ladder, u).clamp_(max=weights.numel() - 1)


class Stratified(Resampler, tag="stratified"):
    def positions(self, count, like):
        steps = torch.arange(count, device=like.device, dtype=like.dtype)
        return (steps + torch.rand_like(steps)) / count


class Systematic(Resampler, tag="systematic"):
    def positions(self, count, like):
        steps = torch.arange(count, device=like.device, dtype=like.dtype)
        return (steps + random.random()) / count


class Jitter:
    def __init__(self, spread: tuple[float, ...], seed: int = 0):
        self.spread = np.asarray(spread, dtype=np.float32)
        self.rng = np.random.default_rng(seed)

    def __call__(self, like: torch.Tensor) -> torch.Tensor:
        draw = self.rng.standard_normal(tuple(like.shape), dtype=np.float32) * self.spread
        return torch.from_numpy(draw).to(like.device)


class BearingFilter:
    def __init__(self, count: int, device, scheme: str = "systematic", dt: float = 0.1):
        self.cloud = torch.randn(count, 4, device=device)
        self.weights = torch.full((count,), 1.0 / count, device=device)
        self.move = torch.eye(4, device=device)
        self.move[0, 2] = self.move[1, 3] = dt
        self.resampler = Resampler.registry[scheme]()
        self.jitter = Jitter((0.01, 0.01, 0.05, 0.05))

    def __call__(self, bearing: torch.Tensor, sensor: torch.Tensor) -> torch.Tensor:
        self.cloud.copy_(self.cloud @ self.move.T + self.jitter(self.cloud))
        offset = self.cloud[:, :2] - sensor
        error = torch.atan2(offset[:, 1], offset[:, 0]) - bearing
        error = torch.atan2(error.sin(), error.cos())
        scored = self.weights * torch.exp(-0.5 * (error / 0.05).square()) + 1e-12
        self.weights = scored / scored.sum()
        if not Health(self.weights, 0.5):
            chosen = self.resampler.ancestors(self.weights)
            self.cloud.copy_(self.cloud[chosen])
            self.weights.fill_(1.0 / self.weights.numel())
        return (self.weights[:, None] * self.cloud).sum(0)


def build(device, count: int = 512):
    torch.manual_seed(3)
    tracker = BearingFilter(count, device)
    return tracker, (torch.full((1,), 0.3, device=device), torch.tensor([1.0, -2.0], device=device))
