"""Batches requests that wait in a queue and serves them through recorded sizes."""
import bisect
import collections
import queue
import random
import threading

import torch
from torch import nn

WIDTH = 64


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class Runner:
    sizes = (1, 2, 4, 8)

    def __init__(self, device):
        self.model = Model().to(device).eval()
        self.x = torch.zeros(16, WIDTH, device=device)
        self.y = torch.zeros(16, WIDTH, device=device)
        self.graphs = {}
        self.pool = None
        for n in reversed(self.sizes):
            self.graphs[n] = self.record(n)

    def run(self, n):
        self.y[:n].copy_(self.model(self.x[:n]))

    def record(self, n):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.run(n)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            self.run(n)
        self.pool = graph.pool()
        return graph

    def execute(self, rows):
        n = rows.shape[0]
        self.x[:n].copy_(rows)
        at = bisect.bisect_left(self.sizes, n)
        if at < len(self.sizes):
            self.graphs[self.sizes[at]].replay()
        else:
            self.run(n)
        return self.y[:n]


class Batcher(threading.Thread):
    """Stands for the front end: groups arrivals into batches of at most `limit`."""

    def __init__(self, out, limit, ticks):
        super().__init__(daemon=True)
        self.out, self.limit, self.ticks = out, limit, ticks

    def run(self):
        rng = random.Random(9)
        waiting = collections.deque()
        for tick in range(self.ticks):
            load = 4 if tick < 25 else 12
            waiting.extend(rng.randrange(64) for _ in range(rng.randint(load - 2, load + 1)))
            batch = [waiting.popleft() for _ in range(min(self.limit, len(waiting)))]
            self.out.put(batch)
        self.out.put(None)


@torch.inference_mode()
def main():
    torch.manual_seed(9)
    device = torch.device("cuda")
    runner = Runner(device)
    bank = torch.randn(64, WIDTH).to(device)
    offset = torch.zeros((), device=device)
    inbox = queue.Queue()
    Batcher(inbox, limit=12, ticks=100).start()
    served = 0
    while (batch := inbox.get()) is not None:
        lead = batch[0] % (64 - len(batch))
        y = runner.execute(bank[lead:lead + len(batch)])
        offset.add_(y.mean())
        served += len(batch)
    print(f"served {served} mean {offset.item() / 100:.5f}")


if __name__ == "__main__":
    main()
