"""Scheduler over prefill-chunk and decode graphs with per-step latency figures."""
import time
from collections import deque

import torch

DEV = torch.device("cuda")
DIM = 64


class Graphed:
    def __init__(self, fn, rows):
        self.fn = fn
        self.x = torch.zeros(rows, DIM, device=DEV)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            fn(self.x)
            fn(self.x)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = fn(self.x)

    def __call__(self, x):
        if x.shape != self.x.shape:
            raise ValueError(f"expected {tuple(self.x.shape)}, got {tuple(x.shape)}")
        self.x.copy_(x)
        self.graph.replay()
        return self.y


class Scheduler:
    def __init__(self):
        gen = torch.Generator().manual_seed(6)
        self.w1 = (torch.randn(DIM, DIM, generator=gen) / 8).to(DEV)
        self.w2 = (torch.randn(DIM, DIM, generator=gen) / 8).to(DEV)
        self.kinds = {"chunk": (self.chunk, 32), "decode": (self.decode, 4)}
        self.graphed = {k: Graphed(fn, rows) for k, (fn, rows) in self.kinds.items()}
        self.use_graphs = True
        self.dropped = 0
        self.latency = deque(maxlen=64)

    def chunk(self, x):
        return torch.relu(x @ self.w1).mean(0, keepdim=True)

    def decode(self, x):
        return torch.tanh(x @ self.w2)

    def execute(self, kind, x):
        began = time.perf_counter()
        y = None
        if self.use_graphs:
            try:
                y = self.graphed[kind](x)
            except ValueError:
                self.use_graphs = False
                self.dropped += 1
                return None
        if y is None:
            y = self.kinds[kind][0](x)
        torch.cuda.synchronize()
        self.latency.append(time.perf_counter() - began)
        return y


@torch.no_grad()
def main():
    sched = Scheduler()
    acc = torch.zeros(DIM, device=DEV)
    for step in range(40):
        kind = "chunk" if step % 4 == 0 else "decode"
        rows = 32 if kind == "chunk" else 4
        if step == 21:
            rows = 7
        x = torch.full((rows, DIM), 0.01 * step, device=DEV)
        y = sched.execute(kind, x)
        if y is not None:
            acc += y.sum(0)
    print(round(float(acc.sum()) + sched.dropped, 4))


main()
