from typing import NamedTuple

import torch


class Entry(NamedTuple):
    graph: torch.cuda.CUDAGraph
    ids: torch.Tensor
    scores: torch.Tensor


class VerifyGraphs:
    """Lazily captured verification graphs over one static id buffer."""

    def __init__(self, verifier, max_batch: int, max_draft: int, device: torch.device):
        self.verifier = verifier
        self.device = device
        self.max_draft = max_draft
        self.ids = torch.zeros(max_batch, max_draft + 1, dtype=torch.long, device=device)
        self.scores = torch.zeros(max_batch, max_draft + 1, verifier.head.out_features, device=device)
        self.stream = torch.cuda.Stream(device)
        self.pool = None
        self._entries: dict = {}

    def _forward(self, batch: int, width: int) -> None:
        self.scores[:batch, :width].copy_(self.verifier(self.ids[:batch, :width]))

    def _record(self, batch: int, width: int) -> Entry:
        here = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            self._forward(batch, width)
        here.wait_stream(self.stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
            self._forward(batch, width)
        self.pool = self.pool or graph.pool()
        return Entry(graph, self.ids, self.scores)

    def _lookup(self, batch: int, width: int) -> Entry:
        key = batch
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = self._record(batch, width)
        return entry

    def verify(self, drafts: torch.Tensor) -> torch.Tensor:
        batch, width = drafts.shape
        entry = self._lookup(batch, width)
        entry.ids[:batch, :width].copy_(drafts)
        entry.graph.replay()
        return entry.scores[:batch, :width].clone()
