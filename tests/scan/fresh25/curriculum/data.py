"""Damped oscillations: frequency and damping are to be found from a noisy series."""
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Phase:
    noise: float
    accumulate: int
    updates: int


PHASES = (Phase(0.02, 2, 12), Phase(0.1, 4, 12), Phase(0.25, 8, 12))


class Oscillations:
    def __init__(self, length: int, device: torch.device):
        self.time = torch.linspace(0, 1, length, device=device)

    def draw(self, rows: int, noise: float):
        target = torch.rand(rows, 2, device=self.time.device)
        omega = 10 + 30 * target[:, :1]
        series = torch.exp(-4 * target[:, 1:] * self.time) * torch.sin(omega * self.time)
        return series + noise * torch.randn_like(series), target
