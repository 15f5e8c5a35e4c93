from __future__ import annotations

from dataclasses import dataclass, field

import torch

PAGE = 8


@dataclass
class Sequence:
    ident: int
    token: int
    length: int = 0
    pages: list[int] = field(default_factory=list)


class PagePool:
    """Key/value pages for all sequences; page 0 is scratch."""

    def __init__(self, pages: int, dim: int, device):
        self.device = device
        self.store = torch.zeros(pages, PAGE, dim, device=device)
        self.free = list(range(pages - 1, 0, -1))

    def ensure(self, seq: Sequence) -> None:
        while len(seq.pages) * PAGE <= seq.length:
            if not self.free:
                self._grow()
            seq.pages.append(self.free.pop())

    def release(self, seq: Sequence) -> None:
        self.free.extend(seq.pages)
        seq.pages.clear()

    def _grow(self) -> None:
        old = self.store.shape[0]
        self.store = torch.cat((self.store, torch.zeros_like(self.store)))
        self.free.extend(range(2 * old - 1, old - 1, -1))

    def table(self, batch: list[Sequence], rows: int) -> torch.Tensor:
        width = max(len(s.pages) for s in batch)
        padded = [s.pages + [0] * (width - len(s.pages)) for s in batch]
        padded += [[0] * width] * (rows - len(batch))
        return torch.tensor(padded, device=self.device)
