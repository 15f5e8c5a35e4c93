"""Serve token streams from a tiny decoder, one graph per batch bucket."""
from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Iterable

import torch
from torch import nn

BUCKETS = (1, 2, 4, 8)
EOS = 1


class Decoder(nn.Module):
    """One-layer decoder that writes its keys into a flat cache by slot."""

    def __init__(self, vocab: int, dim: int, slots: int, device):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, device=device)
        self.qkv = nn.Linear(dim, 3 * dim, device=device)
        self.head = nn.Linear(dim, vocab, device=device)
        self.register_buffer("k", torch.zeros(slots, dim, device=device))
        self.register_buffer("v", torch.zeros(slots, dim, device=device))

    def forward(self, ids, slots):
        q, k, v = self.qkv(self.embed(ids)).chunk(3, dim=-1)
        self.k.index_copy_(0, slots, k)
        self.v.index_copy_(0, slots, v)
        att = (q @ self.k.t() / math.sqrt(q.shape[-1])).softmax(-1)
        return self.head(att @ self.v)


@dataclass
class Batch:
    ids: torch.Tensor
    slots: torch.Tensor
    greedy: bool
    budget: int
    tokens: list = field(default_factory=list)

    def __len__(self) -> int:
        return self.ids.shape[0]


@dataclass
class Bucket:
    graph: torch.cuda.CUDAGraph
    ids: torch.Tensor
    slots: torch.Tensor
    out: torch.Tensor


class DecodeServer:
    def __init__(self, model: Decoder, device: str = "cuda"):
        self.model = model
        self.device = device
        self.scratch = model.k.shape[0] - 1
        self.buckets: dict[int, Bucket] = {}
        self.waiting: deque[Batch] = deque()

    def submit(self, batches: Iterable[Batch]) -> None:
        self.waiting.extend(batches)

    def _next(self, ids, slots, greedy):
        logits = self.model(ids, slots)
        if greedy:
            return logits.argmax(-1)
        race = torch.empty_like(logits).exponential_()
        return (logits.softmax(-1) / race).argmax(-1)

    def _record(self, size: int, greedy: bool) -> Bucket:
        ids = torch.zeros(size, dtype=torch.long, device=self.device)
        slots = torch.full((size,), self.scratch, dtype=torch.long, device=self.device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._next(ids, slots, greedy)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self._next(ids, slots, greedy)
        return Bucket(graph, ids, slots, out)

    def bucket_for(self, batch: Batch) -> Bucket:
        size = next(b for b in BUCKETS if b >= len(batch))
        if size not in self.buckets:
            self.buckets[size] = self._record(size, batch.greedy)
        return self.buckets[size]

    def decode(self, batch: Batch) -> Batch:
        bucket = self.bucket_for(batch)
        n = len(batch)
        for _ in range(batch.budget):
            bucket.ids[:n].copy_(batch.ids)
            bucket.slots[:n].copy_(batch.slots)
            bucket.graph.replay()
            batch.tokens.append(bucket.out[:n])
            batch.ids.copy_(bucket.out[:n])
            batch.slots.add_(1)
            if torch.all(batch.ids == EOS):
                break
        return batch

    def run(self):
        with torch.inference_mode():
            while self.waiting:
                yield self.decode(self.waiting.popleft())


def main() -> None:
    device = "cuda"
    server = DecodeServer(Decoder(64, 32, 256, device), device)
    server.submit(
        Batch(
            ids=torch.randint(2, 64, (n,), device=device),
            slots=torch.arange(n, device=device) * 32,
            greedy=n % 2 == 0,
            budget=16,
        )
        for n in (3, 6, 1, 4)
    )
    for batch in server.run():
        print(len(batch), len(batch.tokens))


if __name__ == "__main__":
    main()
