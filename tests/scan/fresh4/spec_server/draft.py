from __future__ import annotations

import torch
from torch import nn

from .capture import Captured


class Draft(Captured):
    """Guesses `width` tokens from the last one and keeps a short trail of states."""

    def __init__(self, vocab: int, dim: int, width: int, trail: int, device: str):
        self.width = width
        self.embed = nn.Embedding(vocab, dim, device=device)
        self.cell = nn.GRUCell(dim, dim, device=device)
        self.head = nn.Linear(dim, vocab, device=device)
        self.last = torch.zeros(1, dtype=torch.long, device=device)
        self.hidden = torch.zeros(1, dim, device=device)
        self.trail = torch.zeros(trail, dim, device=device)
        self.guesses = torch.zeros(width, dtype=torch.long, device=device)
        self.filled = 0

    def forward(self) -> None:
        token, hidden = self.last, self.hidden
        for index in range(self.width):
            hidden = self.cell(self.embed(token), hidden)
            token = self.head(hidden).argmax(-1)
            self.guesses[index:index + 1].copy_(token)
        self.hidden.copy_(hidden)
        row = self.filled % self.trail.shape[0]
        self.trail[row].copy_(hidden[0])
        self.filled += 1
