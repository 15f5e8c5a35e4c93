from __future__ import annotations

import torch
from torch import nn

from .capture import Captured, fenced


class Target(Captured):
    def __init__(self, vocab: int, dim: int, width: int, device: str):
        self.net = nn.Sequential(
            nn.Embedding(vocab, dim, device=device),
            nn.Linear(dim, dim, device=device),
            nn.Tanh(),
            nn.Linear(dim, vocab, device=device),
        )
        self.ids = torch.zeros(width + 1, dtype=torch.long, device=device)
        self.choice = torch.zeros(width + 1, dtype=torch.long, device=device)
        self.count = torch.zeros((), dtype=torch.long, device=device)

    def forward(self) -> None:
        self.choice.copy_(self.net(self.ids).argmax(-1))
        same = (self.choice[:-1] == self.ids[1:]).long()
        self.count.copy_(same.cumprod(0).sum())

    @fenced
    def verify(self) -> None:
        self.replay()

    @property
    def accepted(self) -> list[int]:
        return self.choice[: int(self.count) + 1].tolist()
