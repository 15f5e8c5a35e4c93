"""Where the sequences of a packed batch begin and end."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass
class PackedLayout:
    starts: torch.Tensor
    capacity: int

    @classmethod
    def empty(cls, sequences: int, capacity: int, device) -> PackedLayout:
        return cls(torch.empty(sequences + 1, dtype=torch.int64, device=device), capacity)

    def assign(self, lengths: torch.Tensor) -> None:
        self.starts[0] = 0
        torch.cumsum(lengths, 0, out=self.starts[1:])

    def owner(self, positions: torch.Tensor) -> torch.Tensor:
        """The sequence of each position; positions after the last sequence belong to none."""
        return torch.searchsorted(self.starts[1:], positions, right=True)

    def same_sequence(self, positions: torch.Tensor) -> torch.Tensor:
        owner = self.owner(positions)
        return owner.unsqueeze(0) == owner.unsqueeze(1)
