"""Keeps the rows of a large host table that were asked for on the device."""

from __future__ import annotations

import torch


class HotCache:
    def __init__(self, host: torch.Tensor, room: int, device: torch.device):
        self.host = host
        self.table = torch.zeros(room, host.shape[1], device=device)
        self.place_of = torch.zeros(host.shape[0], dtype=torch.long, device=device)
        self.held: dict[int, int] = {}

    def flush(self) -> None:
        """Starts anew with an empty table."""
        self.table = torch.zeros_like(self.table)
        self.held.clear()

    def admit(self, ids: torch.Tensor) -> None:
        """Loads the rows of those ids that are not held yet."""
        wanted = torch.unique(ids)
        numbers = wanted.tolist()
        missing = [i for i in numbers if i not in self.held]
        if not missing:
            return
        if len(self.held) + len(missing) > self.table.shape[0]:
            self.flush()
            missing = numbers
        first = len(self.held)
        for number in missing:
            self.held[number] = len(self.held)
        rows = self.host[missing].pin_memory()
        self.table[first : first + len(missing)].copy_(rows, non_blocking=True)
        self.place_of[missing] = torch.arange(first, first + len(missing), device=self.place_of.device)
