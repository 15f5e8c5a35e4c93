from __future__ import annotations

import torch


class BlockManager:
    """Hands out cache blocks and keeps the table of each running sequence."""

    def __init__(self, blocks: int, width: int, rows: int, pin: bool = True):
        self.free = list(range(blocks))
        self.width = width
        self.owned: dict[int, list[int]] = {row: [] for row in range(rows)}
        self.staging = torch.zeros(rows, width, dtype=torch.long, pin_memory=pin)

    def grow(self, row: int) -> None:
        if len(self.owned[row]) == self.width:
            self.free.append(self.owned[row].pop(0))
        self.owned[row].append(self.free.pop())

    def release(self, row: int) -> None:
        self.free.extend(self.owned[row])
        self.owned[row].clear()

    def stage(self) -> torch.Tensor:
        for row, blocks in self.owned.items():
            padded = blocks + [0] * (self.width - len(blocks))
            self.staging[row] = torch.tensor(padded)
        return self.staging
