"""Bucketed runner with a shared scratch area for its split reduction."""
import logging

import torch

log = logging.getLogger("runner")
DEV = torch.device("cuda")
DIM, SPLITS = 64, 4
BUCKETS = (2, 4, 8)
SCRATCH_ROWS = 32


class Scratch:
    def __init__(self, rows):
        self.area = torch.zeros(rows, DIM, device=DEV)

    def take(self, rows):
        if rows <= self.area.shape[0]:
            return self.area[:rows]
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError(f"scratch of {rows} rows not available")
        return torch.zeros(rows, DIM, device=DEV)


class Runner:
    def __init__(self):
        gen = torch.Generator().manual_seed(1)
        self.w = (torch.randn(DIM, DIM, generator=gen) / 8).to(DEV)
        self.x = torch.zeros(max(BUCKETS), DIM, device=DEV)
        self.scratch = Scratch(SCRATCH_ROWS)
        self.graphs = {}
        self.outs = {}
        self.pool = torch.cuda.graph_pool_handle()

    def step(self, n):
        h = torch.relu(self.x[:n])
        part = self.scratch.take(n * SPLITS)
        part = part.view(SPLITS, n, DIM)
        for i in range(SPLITS):
            torch.matmul(h, self.w, out=part[i])
            part[i].mul_(i + 1)
        return part.sum(0).tanh()

    def capture_all(self):
        for n in BUCKETS:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self.step(n)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            try:
                with torch.cuda.graph(graph, pool=self.pool):
                    out = self.step(n)
            except RuntimeError as err:
                log.debug("bucket %d: %s", n, err)
                continue
            self.graphs[n], self.outs[n] = graph, out

    def run(self, batch):
        n = batch.shape[0]
        self.x[:n].copy_(batch)
        if n not in self.graphs:
            return self.step(n)
        self.graphs[n].replay()
        return self.outs[n]


@torch.no_grad()
def main():
    runner = Runner()
    runner.capture_all()
    total = torch.zeros((), device=DEV)
    for i in range(24):
        n = BUCKETS[i % 3]
        total += runner.run(torch.randn(n, DIM, device=DEV)).abs().mean()
    print(round(float(total), 4))


main()
