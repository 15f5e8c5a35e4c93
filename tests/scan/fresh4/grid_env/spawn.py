from __future__ import annotations

import numpy as np
import torch


class Spawner:
    """Draws start cells; a seed makes a run repeatable."""

    def __init__(self, size: int, seed: int = 0):
        self.size = size
        self.rng = np.random.default_rng(seed)

    def draw(self, count: int) -> torch.Tensor:
        cells = self.rng.integers(0, self.size, size=(count, 2))
        return torch.from_numpy(cells)
