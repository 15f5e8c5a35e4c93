"""Batched descent where each row finds its own step length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import torch


@dataclass(frozen=True)
class SearchRule:
    slope: float = 1e-4
    shrink: float = 0.5
    trials: int = 10


def quartic_valley(stiffness: float) -> tuple[Callable, Callable]:
    def value(x: torch.Tensor) -> torch.Tensor:
        head, tail = x[:, :-1], x[:, 1:]
        return (stiffness * (tail - head**2) ** 2 + (1 - head) ** 2).sum(-1)

    def gradient(x: torch.Tensor) -> torch.Tensor:
        head, tail = x[:, :-1], x[:, 1:]
        inner = tail - head**2
        left = -4 * stiffness * head * inner - 2 * (1 - head)
        right = 2 * stiffness * inner
        return torch.nn.functional.pad(left, (0, 1)) + torch.nn.functional.pad(right, (1, 0))

    return value, gradient


class RowwiseDescent:
    def __init__(self, value: Callable, gradient: Callable, rule: SearchRule = SearchRule()):
        self.value = value
        self.gradient = gradient
        self.rule = rule
        self.last_trials = 0

    def lengths(self, x: torch.Tensor, direction: torch.Tensor) -> torch.Tensor:
        base = self.value(x)
        decrease = direction.square().sum(-1)
        length = torch.ones_like(base)
        accepted = torch.zeros_like(base, dtype=torch.bool)
        for _ in range(self.rule.trials):
            trial = self.value(x - length.unsqueeze(-1) * direction)
            accepted = accepted | (trial <= base - self.rule.slope * length * decrease)
            length = torch.where(accepted, length, length * self.rule.shrink)
        return torch.where(accepted, length, torch.zeros_like(length))

    def iterate(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if x.dim() != 2 or x.shape[1] < 2:
            raise ValueError(f"expected rows of at least two numbers, got {tuple(x.shape)}")
        direction = self.gradient(x)
        moved = x - self.lengths(x, direction).unsqueeze(-1) * direction
        self.last_trials = self.rule.trials
        return moved, self.value(moved).mean()


def build(device):
    gen = torch.Generator().manual_seed(12)
    x = torch.randn(32, 10, generator=gen).mul_(0.3).to(device)
    descent = RowwiseDescent(*quartic_valley(8.0))
    return descent.iterate, (x,)
