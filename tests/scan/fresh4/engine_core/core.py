from __future__ import annotations

from collections import deque

import torch

from .runner import Runner
from .tables import Tables


class Core:
    def __init__(self, runner: Runner, tables: Tables):
        self.runner = runner
        self.tables = tables
        self.updates: deque[dict] = deque()
        self.paused: set[int] = set()
        self.rows = torch.arange(len(tables), device=runner.device)
        self.tick = 0

    def push_weights(self, weights: dict) -> None:
        self.updates.append(weights)

    def pause(self, row: int) -> None:
        self.paused.add(row)

    def _mark(self, mask: torch.Tensor) -> None:
        mask.fill_(True)
        for row in self.paused:
            mask.logical_and_(self.rows != row)

    def _prepare(self) -> None:
        if self.updates:
            self.runner.load(self.updates.popleft())
        if self.tick % 4 == 0:
            for row in self.tables.owned.keys() - self.paused:
                self.tables.grow(row)
        self.runner.table.copy_(self.tables.stage(), non_blocking=True)
        self._mark(self.runner.active)

    def serve(self, steps: int) -> torch.Tensor:
        history = torch.zeros(steps, len(self.tables), dtype=torch.long, device=self.runner.device)
        if self.runner.graph is None:
            self.runner.capture()
        for index in range(steps):
            self._prepare()
            out = self.runner.step()
            self.runner.ids.copy_(out)
            history[index].copy_(out)
            self.tick += 1
        return history
