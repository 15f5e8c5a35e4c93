from __future__ import annotations

from dataclasses import dataclass, field

import torch

PAGE = 8


class OutOfPages(RuntimeError):
    pass


@dataclass
class Sequence:
    ident: int
    token: int
    length: int = 0
    pages: list[int] = field(default_factory=list)


class PagePool:
    """Key/value pages for all sequences, allocated once; page 0 is scratch."""

    def __init__(self, pages: int, dim: int, device):
        self.store = torch.zeros(pages, PAGE, dim, device=device)
        self.free = list(range(pages - 1, 0, -1))

    def ensure(self, seq: Sequence, total: int) -> None:
        while len(seq.pages) * PAGE < total:
            if not self.free:
                raise OutOfPages(f"sequence {seq.ident} wants {total} tokens")
            seq.pages.append(self.free.pop())

    def release(self, seq: Sequence) -> None:
        self.free.extend(seq.pages)
        seq.pages.clear()
