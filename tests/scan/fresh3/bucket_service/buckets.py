import bisect
from dataclasses import dataclass, field
from itertools import product

import torch


@dataclass
class Bucket:
    graph: torch.cuda.CUDAGraph
    hidden: torch.Tensor
    table: torch.Tensor
    lengths: torch.Tensor
    output: torch.Tensor | None = None

    def fill(self, hidden, table, lengths):
        count = hidden.shape[0]
        self.hidden[:count].copy_(hidden)
        self.hidden[count:].zero_()
        self.table[:count].copy_(table)
        self.table[count:].zero_()
        self.lengths[:count].copy_(lengths)
        self.lengths[count:].fill_(1)


@dataclass
class BucketPool:
    model: torch.nn.Module
    device: torch.device
    sizes: tuple = (2, 4)
    spans: tuple = (8, 16)
    width: int = 16
    graphs: dict = field(default_factory=dict)

    def __post_init__(self):
        self.stream = torch.cuda.Stream(self.device)
        for key in product(self.sizes, self.spans):
            self.graphs[key] = self._make(*key)

    def _make(self, size, span):
        bucket = Bucket(
            torch.cuda.CUDAGraph(),
            torch.zeros(size, 16, device=self.device),
            torch.zeros(size, self.width, dtype=torch.long, device=self.device),
            torch.ones(size, dtype=torch.long, device=self.device),
        )
        run = lambda: self.model(bucket.hidden, bucket.table, bucket.lengths, span)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.no_grad(), torch.cuda.stream(self.stream):
            run()
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        with torch.no_grad(), torch.cuda.graph(bucket.graph, stream=self.stream):
            bucket.output = run()
        return bucket

    def key(self, count, longest):
        size = self.sizes[bisect.bisect_left(self.sizes, count)]
        span = self.spans[bisect.bisect_left(self.spans, longest)]
        return size, span

    def decode(self, hidden, table, lengths, longest):
        bucket = self.graphs[self.key(hidden.shape[0], longest)]
        bucket.fill(hidden, table, lengths)
        bucket.graph.replay()
        return bucket.output[: hidden.shape[0]]
