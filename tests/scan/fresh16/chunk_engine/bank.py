"""The decode graphs of the engine, captured on first use."""

from __future__ import annotations

import torch
from model import LENGTH, Decoder

SIZES = (1, 2, 4, 8)


class GraphBank:
    def __init__(self, model: Decoder, device: torch.device):
        self.model = model
        self.tokens = torch.zeros(SIZES[-1], dtype=torch.long, device=device)
        self.places = torch.zeros(SIZES[-1], dtype=torch.long, device=device)
        self.slots = torch.zeros(SIZES[-1], dtype=torch.long, device=device)
        self.pool = torch.cuda.graph_pool_handle()
        self.graphs: dict[int, tuple[torch.cuda.CUDAGraph, torch.Tensor]] = {}

    def decode(self, size: int, greedy: bool) -> torch.Tensor:
        logits = self.model(self.tokens[:size], self.places[:size], self.slots[:size])
        self.places[:size].add_(1).remainder_(LENGTH)
        if greedy:
            return logits.argmax(-1)
        noise = torch.empty_like(logits).exponential_(1)
        return (logits.softmax(-1) / noise).argmax(-1)

    def capture(self, size: int, greedy: bool) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
        kept = self.places.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.decode(size, greedy)
                self.places.copy_(kept)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            sampled = self.decode(size, greedy)
        return graph, sampled

    def seat(self, places: torch.Tensor) -> None:
        self.places[: places.shape[0]].copy_(places, non_blocking=True)

    def run(self, tokens: torch.Tensor, slots: torch.Tensor, greedy: bool) -> torch.Tensor:
        rows = tokens.shape[0]
        size = next(s for s in SIZES if s >= rows)
        self.tokens[:rows].copy_(tokens, non_blocking=True)
        self.slots[:rows].copy_(slots, non_blocking=True)
        self.slots[rows:size].zero_()
        if size not in self.graphs:
            self.graphs[size] = self.capture(size, greedy)
        graph, sampled = self.graphs[size]
        graph.replay()
        return sampled[:rows]
