"""The decode graphs of the engine, one for each size and kind of sampling, captured at the start."""

from __future__ import annotations

import torch
from model import LENGTH, Decoder

SIZES = (1, 2, 4, 8)


class GraphBank:
    """Tokens stay on the device: `last` and `history` have one row for each slot."""

    def __init__(self, model: Decoder, slots: int, device: torch.device):
        self.model = model
        self.last = torch.zeros(slots, dtype=torch.long, device=device)
        self.history = torch.zeros(slots, LENGTH, dtype=torch.long, device=device)
        self.places = torch.zeros(SIZES[-1], dtype=torch.long, device=device)
        self.slots = torch.zeros(SIZES[-1], dtype=torch.long, device=device)
        self.pool = torch.cuda.graph_pool_handle()
        self.graphs: dict[tuple[int, bool], torch.cuda.CUDAGraph] = {}

    def decode(self, size: int, greedy: bool) -> None:
        slots, places = self.slots[:size], self.places[:size]
        logits = self.model(self.last[slots], places, slots)
        if greedy:
            sampled = logits.argmax(-1)
        else:
            sampled = (logits.softmax(-1) / torch.empty_like(logits).exponential_(1)).argmax(-1)
        self.last[slots] = sampled
        self.history[slots, places] = sampled

    def capture(self) -> None:
        for size in reversed(SIZES):
            for greedy in (False, True):
                side = torch.cuda.Stream()
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    for _ in range(2):
                        self.decode(size, greedy)
                torch.cuda.current_stream().wait_stream(side)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=self.pool):
                    self.decode(size, greedy)
                self.graphs[size, greedy] = graph

    def run(self, places: torch.Tensor, slots: torch.Tensor, greedy: bool) -> None:
        rows = places.shape[0]
        size = next(s for s in SIZES if s >= rows)
        self.places[:rows].copy_(places, non_blocking=True)
        self.slots[:rows].copy_(slots, non_blocking=True)
        self.places[rows:size].zero_()
        self.slots[rows:size].zero_()
        self.graphs[size, greedy].replay()
