from __future__ import annotations

import torch


class Pages:
    SPARE = 0

    def __init__(self, pages: int, size: int, width: int, device: torch.device):
        self.size = size
        self.keys = torch.zeros(pages * size, width, device=device)
        self.values = torch.zeros_like(self.keys)
        self._free = list(range(pages - 1, self.SPARE, -1))

    def alloc(self) -> int:
        if not self._free:
            raise MemoryError("no page left")
        return self._free.pop()

    def release(self, pages: list[int]) -> None:
        self._free.extend(pages)

    def wipe(self) -> None:
        self.keys.zero_()
        self.values.zero_()
