from typing import Dict, NamedTuple, Tuple

import torch


class Entry(NamedTuple):
    ids: torch.Tensor
    lengths: torch.Tensor
    vectors: torch.Tensor
    graph: torch.cuda.CUDAGraph


class GraphStore:
    """Graphs by padded rows, padded length and pooling; all share one memory pool."""

    ROWS = (1, 2, 4, 8)
    LENGTHS = (8, 16, 32)

    def __init__(self, encoder, device):
        self.encoder = encoder
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.pool = torch.cuda.graph_pool_handle()
        self.entries: Dict[Tuple[int, int, str], Entry] = {}

    def prepare(self, poolings):
        for pooling in poolings:
            for rows in sorted(self.ROWS, reverse=True):
                for length in sorted(self.LENGTHS, reverse=True):
                    self.entries[rows, length, pooling] = self._capture(rows, length, pooling)

    def _capture(self, rows, length, pooling):
        ids = torch.zeros(rows, length, dtype=torch.long, device=self.device)
        lengths = torch.ones(rows, dtype=torch.long, device=self.device)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            for _ in range(2):
                self.encoder(ids, lengths, pooling)
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
            vectors = self.encoder(ids, lengths, pooling)
        return Entry(ids, lengths, vectors, graph)

    def shape(self, rows, length):
        return next(r for r in self.ROWS if r >= rows), next(n for n in self.LENGTHS if n >= length)

    def get(self, rows, length, pooling):
        return self.entries[rows, length, pooling]
