"""Draft verification behind graphs that are keyed by everything the host decides."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import torch
import torch.nn as nn


@dataclass(frozen=True)
class Shape:
    batch: int
    width: int
    normalise: bool


@dataclass
class Captured:
    graph: torch.cuda.CUDAGraph
    ids: torch.Tensor
    out: torch.Tensor


class Scorer(nn.Module):
    def __init__(self, vocab: int = 40, dim: int = 16):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, normalise: bool):
        h = self.embed(ids).cumsum(1) / ids.shape[1]
        logits = self.head(torch.tanh(h))
        return logits.log_softmax(-1) if normalise else logits


class GraphBook:
    def __init__(self, fn: Callable, device: torch.device):
        self.fn, self.device = fn, device
        self.stream = torch.cuda.Stream(device)
        self.pool = torch.cuda.graph_pool_handle()
        self.book: dict[Shape, Captured] = {}

    @torch.no_grad()
    def _record(self, shape: Shape) -> Captured:
        ids = torch.zeros(shape.batch, shape.width, dtype=torch.long, device=self.device)
        here = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            self.fn(ids, shape.normalise)
        here.wait_stream(self.stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
            out = self.fn(ids, shape.normalise)
        return Captured(graph, ids, out)

    def __call__(self, ids: torch.Tensor, normalise: bool) -> torch.Tensor:
        shape = Shape(ids.shape[0], ids.shape[1], normalise)
        if shape not in self.book:
            self.book[shape] = self._record(shape)
        entry = self.book[shape]
        entry.ids.copy_(ids)
        entry.graph.replay()
        return entry.out.clone()


def main(device="cuda"):
    torch.manual_seed(42)
    device = torch.device(device)
    score = GraphBook(Scorer().to(device).eval(), device)
    traffic = [(2, 3, True), (2, 5, True), (2, 3, False), (4, 3, True), (2, 5, True), (2, 3, True)]
    return [score(torch.randint(0, 40, (b, w), device=device), n) for b, w, n in traffic]


if __name__ == "__main__":
    for result in main():
        print(tuple(result.shape), result.mean().item())
