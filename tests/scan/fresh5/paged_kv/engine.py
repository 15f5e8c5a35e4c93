from __future__ import annotations

from typing import NamedTuple

import torch

from .model import PagedModel
from .pages import PAGE, PagePool, Sequence


class Key(NamedTuple):
    rows: int
    width: int


class Engine:
    ROWS = (1, 2, 4, 8)
    WIDTHS = (2, 4, 8)

    def __init__(self, vocab: int, dim: int, pages: int, device):
        self.model = PagedModel(vocab, dim, PAGE * self.WIDTHS[-1]).to(device).eval()
        self.pool = PagePool(pages, dim, device)
        top, wide = self.ROWS[-1], self.WIDTHS[-1]
        self.tokens = torch.zeros(top, dtype=torch.long, device=device)
        self.lengths = torch.zeros(top, dtype=torch.long, device=device)
        self.tables = torch.zeros(top, wide, dtype=torch.long, device=device)
        self.graphs: dict[Key, torch.cuda.CUDAGraph] = {}
        self.memory = torch.cuda.graph_pool_handle()

    def _decode(self, key: Key) -> None:
        tokens, lengths = self.tokens[: key.rows], self.lengths[: key.rows]
        table = self.tables[: key.rows, : key.width]
        chosen = self.model(tokens, lengths, table, self.pool.store)
        tokens.copy_(chosen)
        lengths.add_(1)

    @torch.no_grad()
    def prepare(self) -> None:
        """Every key up front, on scratch: tables and lengths are zero here."""
        for rows in reversed(self.ROWS):
            for width in self.WIDTHS:
                key = Key(rows, width)
                side = torch.cuda.Stream()
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    self._decode(key)
                torch.cuda.current_stream().wait_stream(side)
                self.lengths.zero_()
                graph = self.graphs[key] = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=self.memory):
                    self._decode(key)
                self.lengths.zero_()

    def _load(self, batch: list[Sequence], width: int) -> None:
        pad = self.ROWS[-1] - len(batch)
        wide = self.WIDTHS[-1]
        rows = [s.pages + [0] * (wide - len(s.pages)) for s in batch] + [[0] * wide] * pad
        for static, values in (
            (self.tokens, [s.token for s in batch] + [0] * pad),
            (self.lengths, [s.length for s in batch] + [0] * pad),
            (self.tables, rows),
        ):
            static.copy_(torch.tensor(values).pin_memory(), non_blocking=True)

    @torch.no_grad()
    def run(self, batch: list[Sequence], steps: int) -> torch.Tensor:
        for seq in batch:
            self.pool.ensure(seq, seq.length + steps)
        key = Key(
            next(n for n in self.ROWS if n >= len(batch)),
            next(w for w in self.WIDTHS if w >= max(len(s.pages) for s in batch)),
        )
        self._load(batch, key.width)
        graph = self.graphs[key]
        text = []
        for _ in range(steps):
            graph.replay()
            text.append(self.tokens[: len(batch)].clone())
        for seq in batch:
            seq.length += steps
            self.pool.release(seq)
        return torch.stack(text, 1)


def run(device="cuda", steps: int = 20):
    torch.manual_seed(0)
    engine = Engine(64, 32, pages=64, device=device)
    engine.prepare()
    return [engine.run([Sequence(i, 3 + i) for i in range(n)], steps).shape for n in (3, 5, 2)]
