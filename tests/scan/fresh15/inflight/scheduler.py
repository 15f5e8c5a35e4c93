"""Admits requests, keeps their blocks and builds the pinned inputs of a step."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import torch
from cache import BLOCK, PagedCache
from runner import COLUMNS, ROWS, DecodeRunner

EOS = 1


@dataclass
class Request:
    name: str
    tokens: list[int]
    limit: int
    blocks: list[int] = field(default_factory=list)
    scores: list[torch.Tensor] = field(default_factory=list)
    seen: int = 0

    def done(self) -> bool:
        return self.seen >= self.limit or (self.seen > 2 and self.tokens[-1] == EOS)


class Scheduler:
    def __init__(self, runner: DecodeRunner, cache: PagedCache):
        self.runner = runner
        self.cache = cache
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.finished: list[Request] = []

    def pack(self):
        tokens, lengths, tables = [], [], []
        for request in self.running:
            if request.seen % BLOCK == 0:
                request.blocks.append(self.cache.take())
            tokens.append(request.tokens[request.seen])
            lengths.append(request.seen)
            tables.append(request.blocks + [0] * (COLUMNS - len(request.blocks)))
        return (torch.tensor(part).pin_memory() for part in (tokens, lengths, tables))

    def step(self) -> None:
        while self.waiting and len(self.running) < ROWS:
            self.running.append(self.waiting.popleft())
        sampled, scores = self.runner.run(*self.pack())
        for row, token in enumerate(sampled.tolist()):
            request = self.running[row]
            request.seen += 1
            if request.seen == len(request.tokens):
                request.tokens.append(token)
                request.scores.append(scores[row])
        for request in [r for r in self.running if r.done()]:
            self.running.remove(request)
            self.cache.give(request.blocks)
            self.finished.append(request)
