from __future__ import annotations

import torch

from .spawn import Spawner


class Episodes:
    """Which worlds ended in this step, and where they are in the batch."""

    def __init__(self, flags: torch.Tensor):
        self.flags = flags

    def __bool__(self) -> bool:
        return bool(self.flags.any())

    @property
    def rows(self) -> torch.Tensor:
        return torch.nonzero(self.flags).squeeze(1)


class GridWorld:
    moves = ((0, 1), (0, -1), (1, 0), (-1, 0))

    def __init__(self, worlds: int, size: int, limit: int, device: torch.device, spawner: Spawner):
        self.size, self.limit = size, limit
        self.spawner = spawner
        self.delta = torch.tensor(self.moves, device=device)
        self.goal = torch.tensor([size - 1, size - 1], device=device)
        self.pos = spawner.draw(worlds).to(device)
        self.age = torch.zeros(worlds, dtype=torch.long, device=device)

    def observe(self) -> torch.Tensor:
        return (self.goal - self.pos).float() / self.size

    def step(self, action: torch.Tensor):
        before = self.distance()
        self.pos = (self.pos + self.delta[action]).clamp(0, self.size - 1)
        self.age.add_(1)
        reached = (self.pos == self.goal).all(-1)
        reward = (before - self.distance()).float() + 10.0 * reached
        ended = Episodes(reached | (self.age >= self.limit))
        if ended:
            self.respawn(ended.rows)
        return self.observe(), reward, ended.flags

    def distance(self) -> torch.Tensor:
        return (self.goal - self.pos).abs().sum(-1)

    def respawn(self, rows: torch.Tensor) -> None:
        cells = self.spawner.draw(rows.shape[0])
        self.pos.index_copy_(0, rows, cells.to(self.pos.device))
        self.age.index_fill_(0, rows, 0)
