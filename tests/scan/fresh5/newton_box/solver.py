from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch

from .schedule import annealed


@dataclass
class Options:
    limit: int = 8
    tolerance: float = 1e-4
    linear: str = "solve"
    keep: int = 32


class Journal(list):
    def note(self, **values: torch.Tensor) -> None:
        self.append({k: v.detach().cpu() for k, v in values.items()})


class DampedNewton:
    def __init__(self, problem, options: Options):
        self.problem = problem
        self.options = options
        self.linear = getattr(torch.linalg, options.linear)
        self.journal = Journal()

    @annealed(start=1.0, rate=0.5)
    def _direction(self, x, damping: float):
        h = self.problem.hessian(x) + damping * self.problem.identity
        return self.linear(h, -self.problem.gradient(x))

    def _iterates(self, x):
        while True:
            yield x, self.problem.gradient(x).norm()
            x = x + self._direction(x)

    def _busy(self, item) -> bool:
        return item[1] > self.options.tolerance

    def __call__(self, x0: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        best, size = x0, self.problem.gradient(x0).norm()
        path = itertools.islice(self._iterates(x0), self.options.limit)
        for best, size in itertools.takewhile(self._busy, path):
            pass
        if len(self.journal) < self.options.keep:
            self.journal.note(size=size)
        if torch.allclose(best, x0):
            best = best + 0.01 * torch.randn_like(best)
        return best, size
