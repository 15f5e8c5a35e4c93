"""The cache of a decoder as an immutable record; eviction makes a new record."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch


@dataclass(frozen=True)
class Cache:
    keys: torch.Tensor
    values: torch.Tensor
    mass: torch.Tensor
    fill: torch.Tensor

    @classmethod
    def empty(cls, batch, length, width):
        keys = torch.zeros(batch, length, width, device="cuda")
        fill = torch.zeros(batch, dtype=torch.long, device="cuda")
        return cls(keys, torch.zeros_like(keys), torch.zeros(batch, length, device="cuda"), fill)

    def write(self, key, value):
        place = self.fill.view(-1, 1, 1).expand(-1, 1, key.shape[-1])
        self.keys.scatter_(1, place, key.unsqueeze(1))
        self.values.scatter_(1, place, value.unsqueeze(1))

    def evict(self, kept: int) -> Cache:
        """Moves the entries that got the most attention to the front and clears the others."""
        order = self.mass.topk(kept, dim=1).indices.sort(dim=1).values
        index = order.unsqueeze(-1).expand(-1, -1, self.keys.shape[-1])
        keys, values = torch.zeros_like(self.keys), torch.zeros_like(self.values)
        keys[:, :kept] = self.keys.gather(1, index)
        values[:, :kept] = self.values.gather(1, index)
        self.fill.fill_(kept)
        return replace(self, keys=keys, values=values)
