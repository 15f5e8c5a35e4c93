"""Captures one graph a batch size and replays it."""
import torch


class Runner:
    def __init__(self, model, sizes, device):
        self.model, self.sizes, self.device = model, sorted(sizes), device
        top = self.sizes[-1]
        self.cache = torch.randn(16, 4, 32, device=device)
        self.ids = torch.zeros(top, dtype=torch.long, device=device)
        self.table = torch.zeros(top, 2, dtype=torch.long, device=device)
        self.lens = torch.ones(top, dtype=torch.long, device=device)
        self.graphs, self.outputs, self.pool = {}, {}, None

    @torch.inference_mode()
    def capture(self):
        stream = torch.cuda.Stream(self.device)
        for n in reversed(self.sizes):
            graph = torch.cuda.CUDAGraph()
            args = self.ids[:n], self.cache, self.table[:n], self.lens[:n]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self.model(*args)
            torch.cuda.synchronize()
            with torch.cuda.graph(graph, pool=self.pool, stream=stream):
                self.outputs[n] = self.model(*args)
            self.pool = self.pool or graph.pool()
            self.graphs[n] = graph

    def prepare(self, batch):
        n = len(batch)
        rows = torch.tensor([s.pages for s in batch], device=self.device)
        self.table[:n].copy_(rows)
        for i, s in enumerate(batch):
            self.lens[i] = len(s)
        last = torch.tensor([s.tokens[-1] for s in batch]).pin_memory()
        self.ids[:n].copy_(last, non_blocking=True)
        return n

    @torch.inference_mode()
    def execute(self, batch):
        n = self.prepare(batch)
        size = next(s for s in self.sizes if s >= n)
        self.graphs[size].replay()
        return self.outputs[size][:n].argmax(-1)
