from __future__ import annotations

import torch
from torch import nn


class CachedLM(nn.Module):
    """One-layer language model with a preallocated history."""

    def __init__(self, vocab: int, dim: int, ctx: int):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(ctx, dim)
        self.out = nn.Linear(dim, vocab)
        self.register_buffer("history", torch.zeros(ctx, dim))
        self.register_buffer("span", torch.arange(ctx))

    def forward(self, tokens: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        where = start + torch.arange(tokens.shape[0], device=tokens.device)
        h = self.tok(tokens) + self.pos(where)
        self.history.index_copy_(0, where, h)
        scores = h @ self.history.T
        scores = scores.masked_fill(self.span[None] > where[:, None], float("-inf"))
        return self.out(scores.softmax(-1) @ self.history)
