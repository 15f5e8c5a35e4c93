from __future__ import annotations

import torch
from torch import nn

from .cache import Pages


class OneLayer(nn.Module):
    def __init__(self, vocab: int, width: int):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.wq, self.wk, self.wv = (nn.Linear(width, width) for _ in range(3))
        self.head = nn.Linear(width, vocab)

    def forward(self, ids, slot, table, length, pages: Pages):
        x = self.emb(ids)
        pages.keys.index_copy_(0, slot, self.wk(x))
        pages.values.index_copy_(0, slot, self.wv(x))
        lane = torch.arange(pages.size, device=ids.device)
        rows = (table.unsqueeze(-1) * pages.size + lane).flatten(1)
        score = torch.einsum("bd,btd->bt", self.wq(x), pages.keys[rows])
        hidden = torch.arange(rows.shape[1], device=ids.device) >= length[:, None]
        weights = score.masked_fill(hidden, -1e9).softmax(-1)
        return self.head(torch.einsum("bt,btd->bd", weights, pages.values[rows]))


class Decoder:
    """One packed input per bucket: ids, slots, lengths and the page table side by side."""

    def __init__(self, model: OneLayer, pages: Pages, buckets, depth: int, device: torch.device):
        self.model, self.pages, self.buckets = model, pages, sorted(buckets)
        self.columns = 3 + depth
        self.packed = {b: torch.zeros(b, self.columns, dtype=torch.long, device=device) for b in self.buckets}
        self.tokens = {b: torch.zeros(b, dtype=torch.long, device=device) for b in self.buckets}
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self.stream = torch.cuda.Stream(device)

    def _step(self, b: int) -> None:
        p = self.packed[b]
        logits = self.model(p[:, 0], p[:, 1], p[:, 3:], p[:, 2], self.pages)
        self.tokens[b].copy_(logits.argmax(-1))

    @torch.no_grad()
    def record(self) -> None:
        for b in reversed(self.buckets):
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                for _ in range(2):
                    self._step(b)
            torch.cuda.current_stream().wait_stream(self.stream)
            self.graphs[b] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graphs[b], stream=self.stream):
                self._step(b)

    def __call__(self, rows: list[list[int]], feedback: torch.Tensor | None) -> torch.Tensor:
        b = next(b for b in self.buckets if b >= len(rows))
        idle = [0, Pages.SPARE, 1] + [Pages.SPARE] * (self.columns - 3)
        host = torch.tensor(rows + [idle] * (b - len(rows))).pin_memory()
        self.packed[b].copy_(host, non_blocking=True)
        if feedback is not None:
            self.packed[b][: len(rows), 0].copy_(feedback)
        self.graphs[b].replay()
        return self.tokens[b][: len(rows)].clone()
