"""Batched gradient descent on a chain of Rosenbrock terms, with a back-tracking line search."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import torch


class Problem(Protocol):
    def value(self, x: torch.Tensor) -> torch.Tensor: ...

    def gradient(self, x: torch.Tensor) -> torch.Tensor: ...


class RosenbrockChain:
    def __init__(self, stiffness: float = 10.0):
        self.stiffness = stiffness

    def value(self, x: torch.Tensor) -> torch.Tensor:
        head, tail = x[:, :-1], x[:, 1:]
        return (self.stiffness * (tail - head**2) ** 2 + (1 - head) ** 2).sum(-1).mean()

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        head, tail = x[:, :-1], x[:, 1:]
        inner = tail - head**2
        grad = torch.zeros_like(x)
        grad[:, :-1] += -4 * self.stiffness * head * inner - 2 * (1 - head)
        grad[:, 1:] += 2 * self.stiffness * inner
        return grad / x.shape[0]


@dataclass(frozen=True)
class ArmijoRule:
    slope: float = 1e-4
    shrink: float = 0.5
    trials: int = 12

    def accepts(self, value, base, length: float, decrease):
        return value <= base - self.slope * length * decrease


@dataclass
class Descent:
    problem: Problem
    rule: ArmijoRule = field(default_factory=ArmijoRule)
    first_length: float = 1.0

    def search(self, x: torch.Tensor, direction: torch.Tensor) -> torch.Tensor:
        base = self.problem.value(x)
        decrease = (direction * direction).sum()
        length = self.first_length
        candidate = x
        for _ in range(self.rule.trials):
            candidate = torch.add(x, direction, alpha=-length)
            enough = self.rule.accepts(self.problem.value(candidate), base, length, decrease)
            if enough:
                break
            length *= self.rule.shrink
        return candidate

    def iterate(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        direction = self.problem.gradient(x)
        moved = self.search(x, direction)
        return moved, self.problem.value(moved)


def build(device):
    gen = torch.Generator().manual_seed(11)
    x = torch.randn(32, 12, generator=gen).mul_(0.3).to(device)
    descent = Descent(RosenbrockChain())
    return descent.iterate, (x,)
