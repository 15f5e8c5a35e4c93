"""Verlet cloth with pinned corners; constraint sweeps unroll over plain Python lists."""
import math
import random
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Weave:
    rows: int = 24
    cols: int = 24
    gap: float = 0.05
    sweeps: int = 4
    dt: float = 1 / 120
    gravity: float = -9.81
    drag: float = 0.995


class Cloth:
    def __init__(self, weave: Weave, device: torch.device, seed: int = 0):
        self.weave = weave
        n = weave.rows * weave.cols
        host = random.Random(seed)
        points = [
            (c * weave.gap, host.uniform(-1e-3, 1e-3), r * weave.gap)
            for r in range(weave.rows)
            for c in range(weave.cols)
        ]
        self.here = torch.tensor(points, device=device)
        self.there = self.here.clone()
        self.rest = self.here[[0, weave.cols - 1]].clone()
        self.fixed = torch.tensor([0, weave.cols - 1], device=device)
        self.fall = torch.tensor([0.0, weave.gravity * weave.dt ** 2, 0.0], device=device)
        self.colours = [
            (a.to(device), b.to(device)) for a, b in self._colour(weave.rows, weave.cols)
        ]
        self.energy = torch.zeros((), device=device)
        self.n = n

    @staticmethod
    def _colour(rows: int, cols: int):
        """Four groups of links such that no point is in a group twice."""
        groups = [([], []) for _ in range(4)]
        for r in range(rows):
            for c in range(cols):
                if c + 1 < cols:
                    groups[c % 2][0].append(r * cols + c)
                    groups[c % 2][1].append(r * cols + c + 1)
                if r + 1 < rows:
                    groups[2 + r % 2][0].append(r * cols + c)
                    groups[2 + r % 2][1].append((r + 1) * cols + c)
        return [(torch.tensor(a), torch.tensor(b)) for a, b in groups]

    def _relax(self) -> None:
        for first, second in self.colours:
            a, b = self.here[first], self.here[second]
            link = b - a
            length = link.norm(dim=1, keepdim=True).clamp_min(1e-6)
            shift = 0.5 * (1 - self.weave.gap / length) * link
            self.here.index_add_(0, first, shift)
            self.here.index_add_(0, second, shift, alpha=-1)
        self.here.index_copy_(0, self.fixed, self.rest)

    def tick(self, wind: torch.Tensor) -> torch.Tensor:
        speed = (self.here - self.there) * self.weave.drag
        self.there.copy_(self.here)
        self.here.add_(speed).add_(self.fall).add_(wind * self.weave.dt ** 2)
        sweep = 0
        while sweep < self.weave.sweeps:
            self._relax()
            sweep += 1
        self.energy.copy_((self.here - self.there).square().sum() / (2 * self.weave.dt ** 2))
        return self.energy.clone()

    def sag(self) -> float:
        """Lowest point, for the caller's log."""
        low = self.here[:, 1].min().item()
        return 0.0 if math.isnan(low) else low


def build(device):
    cloth = Cloth(Weave(), device)
    wind = torch.randn(3, device=device)
    return cloth.tick, (wind,)
