"""Candidate ranking for a recommender: two-tower scores replayed per padded batch."""
from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import nn


class Query(NamedTuple):
    users: np.ndarray      # [n]
    history: np.ndarray    # [n, length]
    top: int


class Towers(nn.Module):
    def __init__(self, users: int, items: int, dim: int):
        super().__init__()
        self.user = nn.Embedding(users, dim)
        self.item = nn.Embedding(items, dim, padding_idx=0)
        self.merge = nn.Sequential(nn.Linear(2 * dim, dim), nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, users, history):
        seen = self.item(history)
        weight = (history != 0).unsqueeze(-1).to(seen.dtype)
        taste = (seen * weight).sum(1) / weight.sum(1).clamp_min(1)
        query = self.merge(torch.cat([self.user(users), taste], dim=-1))
        return query @ self.item.weight.t()


class Recorded(NamedTuple):
    tape: torch.cuda.CUDAGraph
    score: torch.Tensor
    item: torch.Tensor


def padded(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


class RankService:
    def __init__(self, towers: Towers, limit: int, reach: int, floor: float, device: torch.device):
        self.towers = towers.to(device).eval()
        self.device = device
        self.floor = floor
        self.users = torch.zeros(limit, dtype=torch.int64, device=device)
        self.history = torch.zeros(limit, reach, dtype=torch.int64, device=device)
        self.copies = torch.cuda.Stream(device)
        self.lane = torch.cuda.Stream(device)
        self.recorded: dict[int, Recorded] = {}

    def _score(self, rows: int, top: int):
        logits = self.towers(self.users[:rows], self.history[:rows])
        return logits.sigmoid().topk(top, dim=-1)

    def _record(self, rows: int, top: int) -> Recorded:
        self.lane.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.lane):
            for _ in range(2):
                self._score(rows, top)
        torch.cuda.current_stream(self.device).wait_stream(self.lane)
        tape = torch.cuda.CUDAGraph()
        with torch.cuda.graph(tape, stream=self.lane):
            score, item = self._score(rows, top)
        return Recorded(tape, score, item)

    @torch.no_grad()
    def answer(self, query: Query):
        n, length = query.history.shape
        rows = padded(n)
        if rows not in self.recorded:
            self.recorded[rows] = self._record(rows, query.top)
        who = torch.from_numpy(query.users).pin_memory()
        with torch.cuda.stream(self.copies):
            self.users[:n].copy_(who, non_blocking=True)
        fresh = torch.from_numpy(query.history).pin_memory()
        self.history[:n, :length].copy_(fresh, non_blocking=True)
        entry = self.recorded[rows]
        entry.tape.replay()
        score, item = entry.score[:n], entry.item[:n]
        return item[score > self.floor], score.clone()


def demo() -> None:
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    rng = np.random.default_rng(0)
    service = RankService(Towers(10_000, 5_000, 32), limit=64, reach=50, floor=0.3, device=device)
    for _ in range(100):
        n, length = int(rng.integers(1, 64)), int(rng.integers(1, 50))
        service.answer(Query(rng.integers(0, 10_000, n), rng.integers(1, 5_000, (n, length)), top=10))


if __name__ == "__main__":
    demo()
