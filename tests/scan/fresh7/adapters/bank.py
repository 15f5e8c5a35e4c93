from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import torch


@dataclass
class Slot:
    """One low-rank pair living on the device; ``scale`` multiplies the product."""
    down: torch.Tensor
    up: torch.Tensor
    scale: torch.Tensor
    tag: str = "empty"
    hits: int = field(default=0, compare=False)


class AdapterBank:
    def __init__(self, size: int, d_in: int, rank: int, d_out: int, device: torch.device):
        self.device = device
        self.slots = [
            Slot(torch.zeros(d_in, rank, device=device), torch.zeros(rank, d_out, device=device),
                 torch.ones((), device=device))
            for _ in range(size)
        ]
        self._by_tag: dict[str, int] = {}

    def __len__(self):
        return len(self.slots)

    def index(self, tag: str) -> int:
        return self._by_tag[tag]

    def install(self, where: int, tag: str, state: dict[str, torch.Tensor], alpha: float) -> None:
        slot = self.slots[where]
        self._by_tag.pop(slot.tag, None)
        slot.down.copy_(state["down"])
        slot.up = state["up"].to(self.device, torch.float32)
        slot.scale.fill_(alpha / slot.down.shape[1])
        slot.tag = tag
        self._by_tag[tag] = where

    def install_file(self, where: int, path: Path, alpha: float = 16.0) -> None:
        self.install(where, path.stem, torch.load(path, map_location="cpu", weights_only=True), alpha)

    def delta(self, x: torch.Tensor, where: int) -> torch.Tensor:
        s = self.slots[where]
        if s.scale == 0:
            return x.new_zeros(x.shape[0], s.up.shape[1])
        return (x @ s.down) @ s.up * s.scale
