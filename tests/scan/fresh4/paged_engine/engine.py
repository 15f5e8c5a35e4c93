from __future__ import annotations

from collections import deque

import torch

from .blocks import BlockManager
from .runner import Runner


class Engine:
    def __init__(self, runner: Runner, blocks: BlockManager):
        self.runner = runner
        self.blocks = blocks
        self.updates: deque[dict] = deque()
        self.paused: set[int] = set()
        self.tick = 0

    def push_weights(self, weights: dict) -> None:
        self.updates.append(weights)

    def pause(self, row: int) -> None:
        self.paused.add(row)

    def _mask(self) -> torch.Tensor:
        rows = torch.arange(self.runner.ids.shape[0], device=self.runner.device)
        mask = torch.ones_like(rows, dtype=torch.bool)
        for row in self.paused:
            mask &= rows != row
        return mask

    def _prepare(self) -> None:
        if self.updates:
            self.runner.load(self.updates.popleft())
        for row in self.blocks.owned:
            if self.tick % 4 == 0 and row not in self.paused:
                self.blocks.grow(row)
        self.runner.table.copy_(self.blocks.stage(), non_blocking=True)
        self.runner.active = self._mask()

    def serve(self, steps: int) -> torch.Tensor:
        history = torch.zeros(steps, self.runner.ids.shape[0], dtype=torch.long, device=self.runner.device)
        if self.runner.graph is None:
            self.runner.capture()
        for index in range(steps):
            self._prepare()
            out = self.runner.step()
            self.runner.ids.copy_(out)
            history[index].copy_(out)
            self.tick += 1
        return history
