from __future__ import annotations

import torch


class Tables:
    """Host side book-keeping of cache blocks."""

    def __init__(self, blocks: int, width: int, rows: int, pin: bool = True):
        self.free = list(range(blocks))
        self.width = width
        self.pin = pin
        self.owned: dict[int, list[int]] = {row: [] for row in range(rows)}

    def __len__(self) -> int:
        return len(self.owned)

    def grow(self, row: int) -> None:
        if len(self.owned[row]) == self.width:
            self.free.append(self.owned[row].pop(0))
        self.owned[row].append(self.free.pop())

    def stage(self) -> torch.Tensor:
        rows = [blocks + [0] * (self.width - len(blocks)) for blocks in self.owned.values()]
        return torch.tensor(rows, pin_memory=self.pin)
