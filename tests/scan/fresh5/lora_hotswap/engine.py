from __future__ import annotations

from collections import Counter

import torch
from torch import nn

from .weights import AdapterStore, LoraLinear


class HotSwapEngine:
    SIZES = (1, 2, 4, 8)

    def __init__(self, dim: int, device, depth: int = 2, resident: int = 2):
        self.device = device
        self.store = AdapterStore(dim, device)
        self.layers = nn.ModuleList(LoraLinear(dim) for _ in range(depth)).to(device)
        self.buffers = {n: torch.zeros(n, dim, device=device) for n in self.SIZES}
        self.results: dict[int, torch.Tensor] = {}
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self.hits = Counter()
        self.resident = resident
        self.loaded: list[str] = []

    def _run(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x

    def activate(self, name: str) -> None:
        if name in self.loaded:
            self.loaded.remove(name)
        self.loaded.append(name)
        for layer in self.layers:
            layer.attach(self.store[name])
        while len(self.loaded) > self.resident:
            self.store.evict(self.loaded.pop(0))

    @torch.no_grad()
    def capture_all(self) -> None:
        pool = None
        for n in reversed(self.SIZES):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                self.results[n] = self._run(self.buffers[n])
            pool = pool or graph.pool()
            self.graphs[n] = graph

    @torch.no_grad()
    def infer(self, x: torch.Tensor) -> torch.Tensor:
        size = next(n for n in self.SIZES if n >= len(x))
        self.buffers[size][: len(x)].copy_(x)
        self.graphs[size].replay()
        self.hits[size] += 1
        return self.results[size][: len(x)].clone()

    def serve(self, traffic):
        for name, x in traffic:
            if name not in self.loaded[-1:]:
                self.activate(name)
            yield name, self.infer(x)


def demo(device="cuda", dim: int = 32):
    engine = HotSwapEngine(dim, device)
    for i, name in enumerate(("alpha", "beta", "gamma")):
        engine.store.add(name, 4 + 4 * i)
    engine.activate("alpha")
    engine.capture_all()
    names = ("alpha", "beta", "gamma", "alpha")
    traffic = ((names[i % 4], torch.randn(1 + i % 8, dim, device=device)) for i in range(12))
    return [(n, y.shape) for n, y in engine.serve(traffic)]
