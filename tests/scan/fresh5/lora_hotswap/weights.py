from __future__ import annotations

import torch
from torch import nn


class AdapterStore:
    """Adapters by name, held on the host and paged to the device on demand."""

    def __init__(self, dim: int, device):
        self.dim = dim
        self.device = device
        self._host: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        self._device: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}

    def add(self, name: str, rank: int) -> None:
        self._host[name] = (torch.randn(self.dim, rank) * 0.02, torch.randn(rank, self.dim) * 0.02)

    def __getitem__(self, name: str):
        if name not in self._device:
            self._device[name] = tuple(t.to(self.device) for t in self._host[name])
        return self._device[name]

    def __contains__(self, name: str) -> bool:
        return name in self._host

    def evict(self, name: str) -> None:
        self._device.pop(name, None)


class LoraLinear(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.base = nn.Linear(dim, dim)
        self.down: torch.Tensor | None = None
        self.up: torch.Tensor | None = None
        self.gain = 1.0

    def attach(self, pair: tuple[torch.Tensor, torch.Tensor], gain: float = 1.0) -> None:
        self.down, self.up = pair
        self.gain = gain

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.base(x)
        if self.down is not None:
            y = y + self.gain * (x @ self.down @ self.up)
        return y
