"""Passage re-ranking with a compiled cross-encoder on a handful of padded lengths."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, Iterator

import torch
from torch import nn
from torch.nn import functional as F

LENGTHS = (32, 64, 128, 256)


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

    def forward(self, ids: torch.Tensor, live: torch.Tensor) -> torch.Tensor:
        h = self.tok(ids)
        q, k, v = self.qkv(h).chunk(3, -1)
        h = h + F.scaled_dot_product_attention(q, k, v, attn_mask=live[:, None, :])
        h = (h + self.ffn(h)) * live[..., None]
        scores = self.score(h.sum(1) / live.sum(1, keepdim=True)).squeeze(-1)
        spread = scores.amax() - scores.amin()
        scores = torch.where(spread < 0.05, scores * self.sharpen, scores)
        return scores.softmax(0)


class RerankService:
    def __init__(self, model: CrossEncoder, device):
        self.device = device
        self.model = model
        self.rank = torch.compile(model, mode="reduce-overhead", dynamic=False)
        self.history: dict[str, torch.Tensor] = {}

    @staticmethod
    def pad(ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows, length = ids.shape
        size = next(n for n in LENGTHS if n >= length)
        live = torch.arange(size, device=ids.device).expand(rows, size) < length
        return F.pad(ids, (0, size - length)), live

    @torch.no_grad()
    def handle(self, query: Query) -> torch.Tensor:
        torch.compiler.cudagraph_mark_step_begin()
        weights = self.rank(*self.pad(query.ids)).clone()
        self.history[query.ident] = weights
        return weights.argsort(descending=True)

    def drain(self, queries: Iterable[Query]) -> Iterator[tuple[str, torch.Tensor]]:
        for query in queries:
            yield query.ident, self.handle(query)

    def report(self) -> dict[str, float]:
        peaks = torch.stack([w.max() for w in self.history.values()]).tolist()
        return dict(zip(self.history, peaks))


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
