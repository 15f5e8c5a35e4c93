"""LoRA server: one base projection, adapters of two ranks, a captured lane per (rank, batch).

The lanes know nothing of alpha: it goes into the slot together with the weights.
"""
from dataclasses import dataclass

import torch

DEV = torch.device("cuda")
DIM, OUT, BATCHES = 128, 96, (4, 8)


@dataclass
class Adapter:
    name: str
    rank: int
    alpha: float
    down: torch.Tensor
    up: torch.Tensor


def load_adapters():
    g = torch.Generator().manual_seed(21)
    book = {}
    for name, rank, alpha in (("legal", 4, 4.0), ("chat", 4, 16.0), ("code", 8, 8.0), ("sql", 8, 32.0), ("poem", 4, 8.0)):
        down = torch.randn(DIM, rank, generator=g) / DIM ** 0.5
        up = torch.randn(rank, OUT, generator=g)
        book[name] = Adapter(name, rank, alpha, down.to(DEV), up.to(DEV))
    return book


def project(x, base, down, up, shrink):
    return x @ base + (x @ down) @ up * shrink


class Lane:
    """Static input, adapter slots and a graph over them."""

    def __init__(self, base, rank, batch):
        self.served = 0
        shrink = 1.0 / rank                 # frozen here, and the key holds the rank
        self.x = torch.zeros(batch, DIM, device=DEV)
        self.down = torch.zeros(DIM, rank, device=DEV)
        self.up = torch.zeros(rank, OUT, device=DEV)
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            project(self.x, base, self.down, self.up, shrink)
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = project(self.x, base, self.down, self.up, shrink)


class Server:
    def __init__(self, base):
        self.base = base
        self.lanes = {}

    def run(self, x, adapter):
        key = (adapter.rank, x.shape[0])
        lane = self.lanes.get(key)
        if lane is None:
            lane = self.lanes[key] = Lane(self.base, adapter.rank, x.shape[0])
        lane.served += 1
        lane.x.copy_(x)
        lane.down.copy_(adapter.down)
        torch.mul(adapter.up, adapter.alpha, out=lane.up)
        lane.graph.replay()
        return lane.y.clone()


@torch.no_grad()
def main():
    g = torch.Generator().manual_seed(4)
    base = (torch.randn(DIM, OUT, generator=g) / DIM ** 0.5).to(DEV)
    book = load_adapters()
    names = list(book)
    jobs = []
    for n in range(30):
        batch = BATCHES[(n // 3) % 2]
        jobs.append((torch.randn(batch, DIM, generator=g).to(DEV), book[names[(n * 3) % 5]]))

    server = Server(base)
    answers = [server.run(x, adapter) for x, adapter in jobs]

    torch.cuda.synchronize()
    good = sum(lane.served for lane in server.lanes.values()) == len(jobs)
    for (x, adapter), got in zip(jobs, answers):
        want = project(x, base, adapter.down, adapter.up, adapter.alpha / adapter.rank)
        good = good and torch.allclose(got, want, rtol=1e-3, atol=1e-3)
    print("values right" if good else "values wrong")


if __name__ == "__main__":
    main()
