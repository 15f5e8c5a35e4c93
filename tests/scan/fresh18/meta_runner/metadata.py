"""What attention needs to know about a batch, besides the tokens."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass
class BatchMeta:
    lengths: torch.Tensor
    positions: torch.Tensor

    @classmethod
    def blank(cls, rows: int, device) -> BatchMeta:
        zeros = torch.zeros(rows, dtype=torch.int64, device=device)
        return cls(lengths=zeros.clone(), positions=zeros.clone())

    def fill(self, positions: torch.Tensor) -> None:
        self.positions.copy_(positions)
        self.lengths = positions + 1
