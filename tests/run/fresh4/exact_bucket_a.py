"""Embedding service: graphs by batch size in one pool, static input and output shared by all."""
import random

import torch
from torch import nn

DIM = 96
SIZES = (1, 2, 4, 8, 32)


class BatchRunner:
    def __init__(self, net, device):
        self.net = net
        self.x = torch.zeros(max(SIZES), DIM, device=device)
        self.y = torch.zeros(max(SIZES), DIM, device=device)
        self.pool = torch.cuda.graph_pool_handle()
        self.graphs = {}
        self.served = {"graph": 0, "plain": 0}
        for size in sorted(SIZES, reverse=True):
            self.graphs[size] = self._capture(size)

    def _body(self, size):
        self.y[:size].copy_(self.net(self.x[:size]))

    def _capture(self, size):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._body(size)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            self._body(size)
        return graph

    def pick(self, n):
        return n if n in self.graphs else None

    def __call__(self, batch):
        n = batch.shape[0]
        size = self.pick(n)
        if size is None:
            self.served["plain"] += 1
            return self.net(batch)
        self.x[:n].copy_(batch)
        self.x[n:size].zero_()
        self.graphs[size].replay()
        self.served["graph"] += 1
        return self.y[:n].clone()


@torch.no_grad()
def main():
    device = torch.device("cuda")
    torch.manual_seed(17)
    net = nn.Sequential(nn.Linear(DIM, 256), nn.GELU(), nn.Linear(256, DIM), nn.LayerNorm(DIM)).to(device)
    runner = BatchRunner(net, device)
    arrivals = random.Random(18)
    queue = [1, 2, 4, 8] + [arrivals.randint(1, 8) for _ in range(80)]
    total = torch.zeros((), device=device)
    for n in queue:
        total += runner(torch.randn(n, DIM, device=device)).abs().mean()
    print(f"{len(queue)} batches, mean {total.item() / len(queue):.4f}, served {sum(runner.served.values())}")


if __name__ == "__main__":
    main()
