"""A cache of graphs by batch size, made on demand."""
import logging

import torch
from torch import nn

log = logging.getLogger(__name__)


class Entry:
    def __init__(self, graph, x, y):
        self.graph, self.x, self.y = graph, x, y


class SizedGraphs:
    def __init__(self, fn, dim, device):
        self.fn, self.dim, self.device = fn, dim, device
        self.entries, self.failed = {}, set()

    def _capture(self, n):
        x = torch.zeros(n, self.dim, device=self.device)
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.fn(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            y = self.fn(x)
        return Entry(graph, x, y)

    def __call__(self, batch):
        n = batch.shape[0]
        if n not in self.entries and n not in self.failed:
            try:
                self.entries[n] = self._capture(n)
            except Exception:
                self.failed.add(n)
        entry = self.entries.get(n)
        if entry is None:
            return self.fn(batch)
        entry.x.copy_(batch)
        entry.graph.replay()
        return entry.y


class Service:
    def __init__(self, device):
        self.net = nn.Linear(16, 16).to(device)
        self.run = SizedGraphs(torch.no_grad()(self.net), 16, device)

    def serve(self, batches):
        kept = []
        for b in batches:
            kept.append(self.run(b))
        return torch.cat(kept)


if __name__ == "__main__":
    d = torch.device("cuda:0")
    print(Service(d).serve([torch.randn(n, 16, device=d) for n in (2, 4, 2)]).shape)
