"""The paged cache: blocks on the device, a list of free ones on the host."""

from __future__ import annotations

from dataclasses import dataclass

import torch

BLOCK = 8


@dataclass
class PagedCache:
    keys: torch.Tensor
    values: torch.Tensor
    free: list[int]

    @classmethod
    def make(cls, blocks: int, width: int, device: torch.device) -> PagedCache:
        shape = (blocks, BLOCK, width)
        return cls(torch.zeros(shape, device=device), torch.zeros(shape, device=device), list(range(1, blocks)))

    def take(self) -> int:
        return self.free.pop()

    def give(self, blocks: list[int]) -> None:
        self.free.extend(blocks)

    def scrub(self) -> None:
        """Leaves no trace of the requests so far."""
        self.keys = torch.zeros_like(self.keys)
        self.values = torch.zeros_like(self.values)
