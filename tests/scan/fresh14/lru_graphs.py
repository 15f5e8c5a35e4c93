"""Embeds texts; the graphs of the last used shapes are kept, and the oldest goes when there are too many."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import torch
import torch.nn as nn

VOCAB, WIDTH, STEP = 200, 32, 16


class TextEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.pooling = "mean"

    def forward(self, ids, mask):
        q, k, v = self.qkv(self.embed(ids)).chunk(3, -1)
        score = (q @ k.transpose(1, 2)) / WIDTH**0.5
        score = score.masked_fill(~mask.unsqueeze(1), -1e9)
        x = self.out(score.softmax(-1) @ v)
        if self.pooling == "first":
            return x[:, 0]
        weight = mask.unsqueeze(-1)
        return (x * weight).sum(1) / weight.sum(1)


@dataclass
class Entry:
    graph: torch.cuda.CUDAGraph
    ids: torch.Tensor
    mask: torch.Tensor
    output: torch.Tensor


class GraphCache:
    def __init__(self, model, capacity=8):
        self.model = model
        self.capacity = capacity
        self.entries: OrderedDict[tuple[int, int], Entry] = OrderedDict()
        self.pool = torch.cuda.graph_pool_handle()

    def capture(self, batch, length):
        ids = torch.zeros(batch, length, dtype=torch.long, device="cuda")
        mask = torch.zeros(batch, length, dtype=torch.bool, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.model(ids, mask)
            self.model(ids, mask)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            output = self.model(ids, mask)
        return Entry(graph, ids, mask, output)

    def get(self, batch, length):
        key = (batch, length)
        if key in self.entries:
            self.entries.move_to_end(key)
            return self.entries[key]
        entry = self.entries[key] = self.capture(batch, length)
        if len(self.entries) > self.capacity:
            self.entries.popitem(last=False)
        return entry


class Embedder:
    def __init__(self, model):
        self.model = model
        self.cache = GraphCache(model)

    def embed(self, ids, lengths, pooling="mean"):
        self.model.pooling = pooling
        longest = int(lengths.max())
        length = -(-longest // STEP) * STEP
        entry = self.cache.get(ids.shape[0], length)
        entry.ids[:, :longest].copy_(ids[:, :longest])
        entry.mask[:, :longest].copy_(torch.arange(longest, device="cuda") < lengths.unsqueeze(1))
        entry.graph.replay()
        return nn.functional.normalize(entry.output, dim=-1)


def texts(count, batch):
    for number in range(count):
        lengths = torch.randint(5, 12 + 9 * (number % 3), (batch,), device="cuda")
        yield torch.randint(1, VOCAB, (batch, 48), device="cuda"), lengths


@torch.inference_mode()
def main():
    torch.manual_seed(12)
    embedder = Embedder(TextEncoder().cuda().eval())
    vectors = []
    for number, (ids, lengths) in enumerate(texts(12, 4)):
        vectors.append(embedder.embed(ids, lengths, "first" if number % 4 == 3 else "mean"))
    torch.save(torch.cat(vectors), "vectors.pt")


if __name__ == "__main__":
    main()
