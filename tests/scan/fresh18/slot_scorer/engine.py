"""Scores streams of requests; each request owns a slot of the state table."""

from __future__ import annotations

import bisect
from typing import NamedTuple

import torch
from torch import nn


class Captured(NamedTuple):
    graph: torch.cuda.CUDAGraph
    scores: torch.Tensor


class SlotModel(nn.Module):
    def __init__(self, features: int, width: int, slots: int):
        super().__init__()
        self.inner = nn.GRUCell(features, width)
        self.score = nn.Linear(width, 1)
        self.register_buffer("table", torch.zeros(slots, width))

    def forward(self, x: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
        state = self.inner(x, self.table.index_select(0, slots))
        self.table.index_copy_(0, slots, state)
        return self.score(state).squeeze(-1)


class Engine:
    SIZES = (2, 4, 8)

    def __init__(self, model: SlotModel, features: int, device):
        self.model = model
        self.x = torch.zeros(max(self.SIZES), features, device=device)
        self.slots = torch.zeros(max(self.SIZES), dtype=torch.int64, device=device)
        self.stream = torch.cuda.Stream(device)
        self.device = device
        self.captured: dict[int, Captured] = {}
        self.pool = torch.cuda.graph_pool_handle()
        for size in sorted(self.SIZES, reverse=True):
            self.captured[size] = self._capture(size)
        model.table.zero_()

    def _capture(self, size: int) -> Captured:
        x, slots = self.x[:size], self.slots[:size]
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self.model(x, slots)
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
            scores = self.model(x, slots)
        return Captured(graph, scores)

    def bucket(self, n: int) -> int:
        return self.SIZES[bisect.bisect_left(self.SIZES, n)]

    def score(self, x: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        entry = self.captured[self.bucket(n)]
        self.x.zero_()
        self.x[:n].copy_(x)
        self.slots[:n].copy_(slots)
        entry.graph.replay()
        return entry.scores[:n].clone()


@torch.no_grad()
def main():
    device = torch.device("cuda", torch.cuda.current_device())
    torch.manual_seed(0)
    engine = Engine(SlotModel(6, 12, slots=20).to(device), 6, device)
    waves = [([3, 9, 4, 11, 7, 2, 15, 8]), ([9, 4, 11]), ([2]), ([15, 8, 3, 7, 9]), ([11, 4, 2])]
    wanted = [torch.tensor(wave).to(device) for wave in waves]
    total = torch.zeros((), device=device)
    for slots in wanted * 5:
        total += engine.score(torch.randn(slots.shape[0], 6, device=device), slots).sum()
    print("sum of scores", float(total))


if __name__ == "__main__":
    main()
