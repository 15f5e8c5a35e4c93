"""Low-rank adapters kept side by side, looked up by their slot."""
from __future__ import annotations

import functools
from dataclasses import dataclass

import torch


@dataclass
class Adapter:
    name: str
    a: torch.Tensor
    b: torch.Tensor
    alpha: float = 8.0

    @property
    def scale(self) -> float:
        return self.alpha / self.a.shape[0]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ self.a.t()) @ self.b.t()


class AdapterBank:
    def __init__(self, device: torch.device):
        self.device = device
        self.version = 0
        self._slots: dict[int, Adapter] = {}
        self._vector = functools.partial(torch.tensor, dtype=torch.float32, device=device)

    def add(self, name: str, dim: int, rank: int = 4) -> int:
        slot = len(self._slots)
        self._slots[slot] = Adapter(
            name,
            torch.randn(rank, dim, device=self.device) * 0.05,
            torch.randn(dim, rank, device=self.device) * 0.05,
        )
        self.version += 1
        return slot

    def __len__(self) -> int:
        return len(self._slots)

    def __getitem__(self, slot) -> Adapter:
        return self._slots[int(slot)]

    def scales(self) -> torch.Tensor:
        return self._vector([adapter.scale for adapter in self._slots.values()])

    def shared_delta(self) -> torch.Tensor:
        return sum(ad.b @ ad.a for ad in self._slots.values()) / len(self)
