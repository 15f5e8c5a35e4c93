"""Runs one decode step of up to ROWS requests by replaying one graph."""

from __future__ import annotations

import torch
import torch.nn as nn
from cache import BLOCK, PagedCache

ROWS, COLUMNS, VOCAB, WIDTH = 6, 4, 80, 32


class Decoder(nn.Module):
    def __init__(self, cache: PagedCache):
        super().__init__()
        self.cache = cache
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.place = nn.Embedding(COLUMNS * BLOCK, WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, VOCAB)
        self.register_buffer("places", torch.arange(COLUMNS * BLOCK))

    def forward(self, tokens, lengths, tables):
        q, k, v = self.qkv(self.embed(tokens) + self.place(lengths)).chunk(3, -1)
        block = tables.gather(1, (lengths // BLOCK).unsqueeze(1)).squeeze(1)
        self.cache.keys[block, lengths % BLOCK] = k
        self.cache.values[block, lengths % BLOCK] = v
        keys = self.cache.keys[tables].flatten(1, 2)
        values = self.cache.values[tables].flatten(1, 2)
        score = torch.einsum("rd,rld->rl", q, keys) / WIDTH**0.5
        score = score.masked_fill(self.places > lengths.unsqueeze(1), -1e9)
        return self.out(torch.einsum("rl,rld->rd", score.softmax(-1), values)).log_softmax(-1).max(-1)


class DecodeRunner:
    def __init__(self, cache: PagedCache, device: torch.device):
        self.model = Decoder(cache).to(device).eval()
        self.tokens = torch.zeros(ROWS, dtype=torch.long, device=device)
        self.lengths = torch.zeros(ROWS, dtype=torch.long, device=device)
        self.tables = torch.zeros(ROWS, COLUMNS, dtype=torch.long, device=device)

    def capture(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.model(self.tokens, self.lengths, self.tables)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.logprobs, self.sampled = self.model(self.tokens, self.lengths, self.tables)

    def run(self, tokens: torch.Tensor, lengths: torch.Tensor, tables: torch.Tensor):
        rows = tokens.shape[0]
        self.tokens[:rows].copy_(tokens, non_blocking=True)
        self.lengths[:rows].copy_(lengths, non_blocking=True)
        self.tables[:rows].copy_(tables, non_blocking=True)
        self.graph.replay()
        return self.sampled[:rows], self.logprobs[:rows]
