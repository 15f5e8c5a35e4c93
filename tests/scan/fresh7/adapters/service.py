"""Serves one projection with swappable adapters; a graph for every (batch, slot)."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from .bank import AdapterBank


class _Recorded:
    __slots__ = ("graph", "x", "y")

    def __init__(self, graph, x, y):
        self.graph, self.x, self.y = graph, x, y


class AdapterService:
    BATCHES = (1, 4, 16)

    def __init__(self, base: nn.Linear, bank: AdapterBank):
        self.base, self.bank = base, bank
        self.device = base.weight.device
        self.pool = torch.cuda.graph_pool_handle()
        self.recorded = {}

    def forward(self, x, where):
        h = self.base(x) + self.bank.delta(x, where)
        bias = torch.tensor([0.5, -0.5], device=x.device)
        return F.softplus(h * bias[0]) + bias[1]

    def _fit(self, n):
        return next(b for b in self.BATCHES if b >= n)

    @torch.inference_mode()
    def record(self, batch, where):
        x = torch.zeros(batch, self.base.in_features, device=self.device)
        s = torch.cuda.Stream(self.device)
        s.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(s):
            for _ in range(2):
                self.forward(x, where)
        torch.cuda.current_stream(self.device).wait_stream(s)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            y = self.forward(x, where)
        self.recorded[batch, where] = _Recorded(graph, x, y)

    def record_all(self):
        for b in sorted(self.BATCHES, reverse=True):
            for w in range(len(self.bank)):
                self.record(b, w)

    @torch.inference_mode()
    def serve(self, rows, tag):
        n = rows.shape[0]
        r = self.recorded[self._fit(n), self.bank.index(tag)]
        r.x[:n].copy_(rows)
        r.x[n:].zero_()
        r.graph.replay()
        return r.y[:n].clone()

    @torch.inference_mode()
    def serve_many(self, jobs):
        """jobs: list of (rows, tag); answers come back in the same order."""
        answers = []
        for rows, tag in jobs:
            n = rows.shape[0]
            r = self.recorded[self._fit(n), self.bank.index(tag)]
            r.x[:n].copy_(rows)
            r.x[n:].zero_()
            r.graph.replay()
            answers.append(r.y[:n])
        return torch.cat(answers)


def demo():
    dev = torch.device("cuda", torch.cuda.current_device())
    bank = AdapterBank(3, 256, 8, 128, dev)
    svc = AdapterService(nn.Linear(256, 128).to(dev), bank)
    svc.record_all()
    for i, name in enumerate(("legal", "medical", "chat")):
        bank.install(i, name, {"down": torch.randn(256, 8), "up": torch.randn(8, 128)}, 16.0)
    jobs = [(torch.randn(3, 256, device=dev), t) for t in ("legal", "chat", "legal")]
    return svc.serve_many(jobs).cpu()


if __name__ == "__main__":
    print(demo().shape)
