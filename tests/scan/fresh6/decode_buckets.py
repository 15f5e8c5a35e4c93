"""Decode-only runner of the batch service: graphs by padded batch and context width."""
from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

BLOCK = 16
BATCHES = (1, 2, 4, 8, 16)
WIDTHS = (4, 16, 64)


class Shape(NamedTuple):
    batch: int
    blocks: int


def round_up(n: int, ladder: tuple[int, ...]) -> int:
    return next(step for step in ladder if step >= n)


class PagedDecoder(nn.Module):
    def __init__(self, vocab: int = 8192, hidden: int = 512, heads: int = 8):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(vocab, hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.out = nn.Linear(hidden, hidden, bias=False)
        self.head = nn.Linear(hidden, vocab, bias=False)
        self.register_buffer("slots", torch.arange(WIDTHS[-1] * BLOCK), persistent=False)

    def forward(self, ids, lens, tables, kv):
        x = self.embed(ids)
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        page = tables.gather(1, (lens // BLOCK).unsqueeze(1)).squeeze(1)
        kv.index_put_((page, lens % BLOCK), torch.stack((k, v), dim=1))
        ctx = kv[tables].flatten(1, 2)
        b, t = ctx.shape[:2]
        keys, values = ctx.view(b, t, 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        mask = self.slots[:t] <= lens.unsqueeze(1)
        att = F.scaled_dot_product_attention(
            q.view(b, self.heads, 1, -1), keys, values, attn_mask=mask[:, None, None, :]
        )
        return self.head(x + self.out(att.reshape(b, -1)))


class DecodeRunner:
    def __init__(self, model: PagedDecoder, pages: int = 1024, device="cuda"):
        self.model = model.to(device).eval()
        hidden = model.embed.embedding_dim
        self.kv = torch.zeros(pages, BLOCK, 2, hidden, device=device)
        self.ids = torch.zeros(BATCHES[-1], dtype=torch.long, device=device)
        self.lens = torch.zeros(BATCHES[-1], dtype=torch.long, device=device)
        self.tables = torch.zeros(BATCHES[-1], WIDTHS[-1], dtype=torch.long, device=device)
        self.entries: dict[Shape, tuple[torch.cuda.CUDAGraph, torch.Tensor]] = {}

    def _forward(self, shape: Shape) -> torch.Tensor:
        b, w = shape
        return self.model(self.ids[:b], self.lens[:b], self.tables[:b, :w], self.kv)

    def _capture(self, shape: Shape):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._forward(shape)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            logits = self._forward(shape)
        return graph, logits

    @torch.inference_mode()
    def prepare(self) -> None:
        for b in BATCHES:
            for w in WIDTHS:
                shape = Shape(b, w)
                self.entries[shape] = self._capture(shape)

    @torch.inference_mode()
    def decode(self, ids: list[int], lens: list[int], tables: torch.Tensor) -> torch.Tensor:
        n = len(ids)
        shape = Shape(round_up(n, BATCHES), round_up(max(lens) // BLOCK + 1, WIDTHS))
        self.lens.zero_()
        self.tables.zero_()
        self.ids[:n].copy_(torch.tensor(ids).pin_memory(), non_blocking=True)
        self.lens[:n].copy_(torch.tensor(lens).pin_memory(), non_blocking=True)
        self.tables[:n, : tables.shape[1]].copy_(tables.pin_memory(), non_blocking=True)
        graph, logits = self.entries[shape]
        graph.replay()
        return logits[:n].clone()


class Conversation:
    """Greedy continuation which hands the raw scores to the ranker at the end."""

    def __init__(self, runner: DecodeRunner, tables: torch.Tensor):
        self.runner = runner
        self.tables = tables
        self.scores: list[torch.Tensor] = []

    def advance(self, ids: list[int], lens: list[int]) -> torch.Tensor:
        logits = self.runner.decode(ids, lens, self.tables)
        self.scores.append(logits)
        return logits.argmax(-1)

    def finish(self) -> torch.Tensor:
        return torch.stack(self.scores).log_softmax(-1).amax(-1)
