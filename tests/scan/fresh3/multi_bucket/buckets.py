import bisect
from dataclasses import dataclass, field

import torch


@dataclass
class Bucket:
    graph: torch.cuda.CUDAGraph
    hidden: torch.Tensor
    table: torch.Tensor
    lengths: torch.Tensor
    output: torch.Tensor | None = None


@dataclass
class BucketPool:
    model: torch.nn.Module
    device: torch.device
    sizes: tuple = (2, 4)
    width: int = 16
    span: int = 8
    graphs: dict = field(default_factory=dict)

    def __post_init__(self):
        self.stream = torch.cuda.Stream(self.device)

    def _make(self, size):
        bucket = Bucket(
            torch.cuda.CUDAGraph(),
            torch.zeros(size, 16, device=self.device),
            torch.zeros(size, self.width, dtype=torch.long, device=self.device),
            torch.ones(size, dtype=torch.long, device=self.device),
        )
        run = lambda: self.model(bucket.hidden, bucket.table, bucket.lengths, self.span)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.no_grad(), torch.cuda.stream(self.stream):
            run()
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        with torch.no_grad(), torch.cuda.graph(bucket.graph, stream=self.stream):
            bucket.output = run()
        return bucket

    def get(self, size):
        if size not in self.graphs:
            self.graphs[size] = self._make(size)
        return self.graphs[size]

    def decode(self, hidden, table, lengths, longest):
        count = hidden.shape[0]
        size = self.sizes[bisect.bisect_left(self.sizes, count)]
        self.span = max(8, longest)
        bucket = self.get(size)
        bucket.hidden[:count].copy_(hidden)
        bucket.table[:count].copy_(table)
        bucket.lengths[:count].copy_(lengths)
        bucket.graph.replay()
        return bucket.output[:count]
