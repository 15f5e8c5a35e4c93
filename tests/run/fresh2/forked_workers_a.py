"""Two forked workers, each with its own graphs, fed with batches of varying size."""
import multiprocessing as mp
import random

import torch

DIM = 72
CAPTURED = (4, 8, 16)


def make_weights(device, rank):
    gen = torch.Generator().manual_seed(100 + rank)
    return [(torch.randn(DIM, DIM, generator=gen) / DIM ** 0.5).to(device) for _ in range(3)]


class Worker:
    def __init__(self, rank):
        self.device = torch.device("cuda")
        self.ws = make_weights(self.device, rank)
        self.static = {n: torch.zeros(n, DIM, device=self.device) for n in CAPTURED}
        self.graphs = {}
        self.warm_up()
        self.capture()

    def model(self, x):
        for w in self.ws:
            x = torch.tanh(x @ w)
        return x

    def warm_up(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for x in self.static.values():
                self.model(x)
        torch.cuda.current_stream().wait_stream(side)

    def capture(self):
        for n, x in self.static.items():
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = self.model(x)
            self.graphs[n] = (graph, y)

    def pick(self, n):
        return n if n in self.graphs else None

    def run(self, batch):
        n = batch.shape[0]
        size = self.pick(n)
        if size is None:
            return self.model(batch)
        graph, y = self.graphs[size]
        self.static[size][:n].copy_(batch)
        self.static[size][n:].zero_()
        graph.replay()
        return y[:n]


@torch.no_grad()
def worker_main(rank, pipe):
    worker = Worker(rank)
    rng = random.Random(rank)
    sizes = [4, 8, 16] + [rng.choice((3, 4, 6, 8, 11, 16)) for _ in range(15)]
    total = torch.zeros((), device=worker.device)
    for n in sizes:
        batch = torch.full((n, DIM), 1.0 / n, device=worker.device)
        total += worker.run(batch).sum()
    pipe.send(float(total))


if __name__ == "__main__":
    ctx = mp.get_context("fork")
    pipes, procs = [], []
    for rank in range(2):
        here, there = ctx.Pipe()
        proc = ctx.Process(target=worker_main, args=(rank, there))
        proc.start()
        pipes.append(here)
        procs.append(proc)
    result = sum(p.recv() for p in pipes)
    for proc in procs:
        proc.join()
    print(round(result, 3))
