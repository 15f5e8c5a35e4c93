from __future__ import annotations

import torch

from .model import PagedModel
from .pages import PagePool, Sequence


class Engine:
    SIZES = (1, 2, 4, 8)

    def __init__(self, vocab: int, dim: int, pages: int, device):
        self.device = device
        self.model = PagedModel(vocab, dim).to(device).eval()
        self.pool = PagePool(pages, dim, device)
        top = self.SIZES[-1]
        self.tokens = torch.zeros(top, dtype=torch.long, device=device)
        self.lengths = torch.zeros(top, dtype=torch.long, device=device)
        self.table = torch.zeros(top, 1, dtype=torch.long, device=device)
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}

    def _decode(self, rows: int) -> None:
        tokens, lengths = self.tokens[:rows], self.lengths[:rows]
        chosen = self.model(tokens, lengths, self.table, self.pool.store)
        tokens.copy_(chosen)
        lengths.add_(1)

    def _graph(self, rows: int) -> torch.cuda.CUDAGraph:
        if (graph := self.graphs.get(rows)) is not None:
            return graph
        live = (self.tokens, self.lengths, self.table)
        keep = [t.clone() for t in live]
        self.lengths.zero_()
        self.table.zero_()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self._decode(rows)
        torch.cuda.current_stream().wait_stream(side)
        self.lengths.zero_()
        graph = self.graphs[rows] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._decode(rows)
        for tensor, old in zip(live, keep):
            tensor.copy_(old)
        return graph

    @torch.no_grad()
    def run(self, batch: list[Sequence], steps: int) -> torch.Tensor:
        rows = next(n for n in self.SIZES if n >= len(batch))
        pad = [0] * (self.SIZES[-1] - len(batch))
        self.tokens.copy_(torch.tensor([s.token for s in batch] + pad))
        self.lengths.copy_(torch.tensor([s.length for s in batch] + pad))
        text = []
        for _ in range(steps):
            for seq in batch:
                self.pool.ensure(seq)
            self.table = self.pool.table(batch, rows)
            graph = self._graph(rows)
            graph.replay()
            text.append(self.tokens[: len(batch)].clone())
            for seq in batch:
                seq.length += 1
        for seq in batch:
            self.pool.release(seq)
        return torch.stack(text, 1)


def run(device="cuda", steps: int = 20):
    torch.manual_seed(0)
    engine = Engine(64, 32, pages=8, device=device)
    return [engine.run([Sequence(i, 3 + i) for i in range(n)], steps).shape for n in (3, 5, 2)]
