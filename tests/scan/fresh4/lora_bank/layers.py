from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .adapters import AdapterBank


class SharedLinear(nn.Module):
    """A dense layer with the mean of all adapters folded in."""

    def __init__(self, dim: int, bank: AdapterBank):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim, dim) * 0.1, requires_grad=False)
        self.bank = bank
        self._folded = None
        self._folded_version = -1

    def folded(self) -> torch.Tensor:
        if self._folded_version != self.bank.version:
            self._folded = self.weight + self.bank.shared_delta()
            self._folded_version = self.bank.version
        return self._folded

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.folded())


class LoraLinear(nn.Module):
    def __init__(self, dim: int, bank: AdapterBank):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim, dim) * 0.1, requires_grad=False)
        self.bank = bank

    def forward(self, x: torch.Tensor, slots: torch.Tensor, live: torch.Tensor) -> torch.Tensor:
        out = F.linear(x, self.weight)
        deltas = []
        for row, slot in enumerate(slots):
            adapter = self.bank[slot]
            deltas.append(adapter(x[row]))
        delta = torch.stack(deltas) * self.bank.scales()[slots].unsqueeze(-1)
        out[live] = out[live] + delta[live]
        return out
