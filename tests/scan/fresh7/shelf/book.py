from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass
class Book:
    """A low-rank pair on the device; its tensors stay the same objects for good."""
    down: torch.Tensor
    up: torch.Tensor
    scale: torch.Tensor
    tag: str = "blank"


class Shelf:
    def __init__(self, size: int, d_in: int, rank: int, d_out: int, device: torch.device):
        self.device = device
        self.books = [
            Book(torch.zeros(d_in, rank, device=device), torch.zeros(rank, d_out, device=device),
                 torch.ones((), device=device))
            for _ in range(size)
        ]
        self._by_tag: dict[str, int] = {}

    def __len__(self):
        return len(self.books)

    def index(self, tag: str) -> int:
        return self._by_tag[tag]

    def install(self, where: int, tag: str, state: dict[str, torch.Tensor], alpha: float) -> None:
        book = self.books[where]
        self._by_tag.pop(book.tag, None)
        for name in ("down", "up"):
            getattr(book, name).copy_(state[name])
        book.scale.fill_(alpha / book.down.shape[1])
        book.tag = tag
        self._by_tag[tag] = where

    def delta(self, x: torch.Tensor, where: int) -> torch.Tensor:
        b = self.books[where]
        return (x @ b.down) @ b.up * b.scale
