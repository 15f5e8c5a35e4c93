"""Passage re-ranking with a compiled cross-encoder."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, Iterator

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class Query:
    ident: str
    ids: torch.Tensor


class CrossEncoder(nn.Module):
    def __init__(self, vocab: int = 500, dim: int = 64, sharpen: float = 4.0):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.ffn = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.score = nn.Linear(dim, 1)
        self.sharpen = sharpen

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        h = self.tok(ids)
        q, k, v = self.qkv(h).chunk(3, -1)
        h = h + F.scaled_dot_product_attention(q, k, v)
        h = h + self.ffn(h)
        scores = self.score(h.mean(1)).squeeze(-1)
        spread = scores.amax() - scores.amin()
        if spread < 0.05:
            scores = scores * self.sharpen
        return scores.softmax(0)


class RerankService:
    def __init__(self, model: CrossEncoder, device):
        self.device = device
        self.model = model
        self.rank = torch.compile(model, mode="reduce-overhead", dynamic=False)
        self.history: dict[str, torch.Tensor] = {}

    @torch.no_grad()
    def handle(self, query: Query) -> torch.Tensor:
        weights = self.rank(query.ids)
        self.history[query.ident] = weights
        return weights.argsort(descending=True)

    def drain(self, queries: Iterable[Query]) -> Iterator[tuple[str, torch.Tensor]]:
        for query in queries:
            torch.compiler.cudagraph_mark_step_begin()
            yield query.ident, self.handle(query)

    def report(self) -> dict[str, float]:
        return {ident: float(w.max()) for ident, w in self.history.items()}


def workload(count: int, rows: int, device) -> Iterator[Query]:
    gen = torch.Generator().manual_seed(0)
    for i in range(count):
        length = int(torch.randint(8, 256, (1,), generator=gen))
        ids = torch.randint(0, 500, (rows, length), generator=gen)
        yield Query(f"q{i}", ids.to(device))


def main(device="cuda", count: int = 40, rows: int = 8):
    torch.manual_seed(0)
    service = RerankService(CrossEncoder().to(device).eval(), device)
    orders = dict(service.drain(list(workload(count, rows, device))))
    return len(orders), service.report()


if __name__ == "__main__":
    print(main())
