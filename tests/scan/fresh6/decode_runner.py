"""Decode-only runner of the chat service: one graph per padded batch."""
from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class RunnerConfig:
    vocab: int = 8192
    hidden: int = 512
    heads: int = 8
    block: int = 16
    pages: int = 1024
    max_blocks: int = 64
    batches: tuple[int, ...] = (1, 2, 4, 8, 16)


class PagedDecoder(nn.Module):
    def __init__(self, cfg: RunnerConfig):
        super().__init__()
        self.cfg = cfg
        self.embed = nn.Embedding(cfg.vocab, cfg.hidden)
        self.qkv = nn.Linear(cfg.hidden, 3 * cfg.hidden, bias=False)
        self.out = nn.Linear(cfg.hidden, cfg.hidden, bias=False)
        self.head = nn.Linear(cfg.hidden, cfg.vocab, bias=False)
        self.register_buffer("slots", torch.arange(cfg.max_blocks * cfg.block), persistent=False)

    def forward(self, ids, lens, tables, kv, blocks: int):
        cfg = self.cfg
        x = self.embed(ids)
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        page = tables.gather(1, (lens // cfg.block).unsqueeze(1)).squeeze(1)
        kv.index_put_((page, lens % cfg.block), torch.stack((k, v), dim=1))
        ctx = kv[tables[:, :blocks]].flatten(1, 2)
        b, t = ctx.shape[:2]
        keys, values = ctx.view(b, t, 2, cfg.heads, -1).permute(2, 0, 3, 1, 4)
        mask = self.slots[:t] <= lens.unsqueeze(1)
        att = F.scaled_dot_product_attention(
            q.view(b, cfg.heads, 1, -1), keys, values, attn_mask=mask[:, None, None, :]
        )
        return self.head(x + self.out(att.reshape(b, -1)))


@dataclass
class Entry:
    graph: torch.cuda.CUDAGraph
    logits: torch.Tensor


class DecodeRunner:
    def __init__(self, model: PagedDecoder, device="cuda"):
        cfg = self.cfg = model.cfg
        self.model = model.to(device).eval()
        self.kv = torch.zeros(cfg.pages, cfg.block, 2, cfg.hidden, device=device)
        top = cfg.batches[-1]
        self.ids = torch.zeros(top, dtype=torch.long, device=device)
        self.lens = torch.zeros(top, dtype=torch.long, device=device)
        self.tables = torch.zeros(top, cfg.max_blocks, dtype=torch.long, device=device)
        self.entries: dict[int, Entry] = {}

    def _forward(self, batch, blocks):
        return self.model(self.ids[:batch], self.lens[:batch], self.tables[:batch], self.kv, blocks)

    def _capture(self, batch: int, blocks: int) -> Entry:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._forward(batch, blocks)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            logits = self._forward(batch, blocks)
        return Entry(graph, logits)

    @torch.inference_mode()
    def decode(self, ids: list[int], lens: list[int], tables: torch.Tensor) -> torch.Tensor:
        n = len(ids)
        batch = next(b for b in self.cfg.batches if b >= n)
        blocks = max(lens) // self.cfg.block + 1
        self.lens.zero_()
        self.tables.zero_()
        self.ids[:n].copy_(torch.tensor(ids))
        self.lens[:n].copy_(torch.tensor(lens).pin_memory(), non_blocking=True)
        self.tables[:n, : tables.shape[1]].copy_(tables.pin_memory(), non_blocking=True)
        entry = self.entries.get(batch)
        if entry is None:
            entry = self.entries[batch] = self._capture(batch, blocks)
        entry.graph.replay()
        return entry.logits[:n]


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
