"""Runs one decode step of all rows by replaying one graph; idle rows write into their own blocks only."""

from __future__ import annotations

import torch
import torch.nn as nn
from cache import BLOCK, PagedCache

ROWS, COLUMNS, VOCAB, WIDTH, EOS = 6, 4, 80, 32, 1


class Decoder(nn.Module):
    def __init__(self, cache: PagedCache):
        super().__init__()
        self.cache = cache
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.place = nn.Embedding(COLUMNS * BLOCK, WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, VOCAB)
        self.register_buffer("places", torch.arange(COLUMNS * BLOCK))

    def forward(self, tokens, lengths):
        q, k, v = self.qkv(self.embed(tokens) + self.place(lengths)).chunk(3, -1)
        block = self.cache.tables.gather(1, (lengths // BLOCK).unsqueeze(1)).squeeze(1)
        self.cache.keys[block, lengths % BLOCK] = k
        self.cache.values[block, lengths % BLOCK] = v
        keys = self.cache.keys[self.cache.tables].flatten(1, 2)
        values = self.cache.values[self.cache.tables].flatten(1, 2)
        score = torch.einsum("rd,rld->rl", q, keys) / WIDTH**0.5
        score = score.masked_fill(self.places > lengths.unsqueeze(1), -1e9)
        return self.out(torch.einsum("rl,rld->rd", score.softmax(-1), values)).log_softmax(-1).max(-1)


class DecodeRunner:
    def __init__(self, cache: PagedCache, device: torch.device):
        self.model = Decoder(cache).to(device).eval()
        self.tokens = torch.zeros(ROWS, dtype=torch.long, device=device)
        self.lengths = torch.zeros(ROWS, dtype=torch.long, device=device)
        self.live = torch.zeros(ROWS, dtype=torch.bool, device=device)

    def advance(self):
        scores, sampled = self.model(self.tokens, self.lengths)
        self.tokens.copy_(torch.where(self.live, sampled, EOS))
        self.lengths.add_(self.live).clamp_(max=COLUMNS * BLOCK - 1)
        self.live.logical_and_(sampled != EOS)
        return scores

    def capture(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.advance()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.scores = self.advance()

    def admit(self, tokens: torch.Tensor) -> None:
        """Starts a new request in every row; `tokens` is pinned and never written again."""
        self.tokens.copy_(tokens, non_blocking=True)
        self.lengths.zero_()
        self.live.fill_(True)

    def run(self) -> None:
        self.graph.replay()
