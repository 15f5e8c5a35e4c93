"""An embedding worker that drains a queue through one graph."""
import queue

import torch
from torch import nn


class Worker:
    def __init__(self, device, rows=8, dim=16):
        self.net = nn.Sequential(nn.Linear(dim, 32), nn.GELU(), nn.Linear(32, 8)).to(device).eval()
        self.x = torch.zeros(rows, dim, device=device)
        self.inbox, self.results = queue.Queue(), {}
        self.rows, self.device = rows, device
        self._record()

    @torch.no_grad()
    def _record(self):
        s = torch.cuda.Stream(self.device)
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            self.net(self.x)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=s):
            self.y = nn.functional.normalize(self.net(self.x), dim=-1)

    def submit(self, key, vectors):
        self.inbox.put((key, vectors))

    def handle(self, key, vectors):
        n = vectors.shape[0]
        self.x[:n].copy_(vectors)
        self.graph.replay()
        self.results[key] = self.y[:n]

    def drain(self):
        while not self.inbox.empty():
            self.handle(*self.inbox.get())
        return self.results


def main():
    worker = Worker(torch.device("cuda:0"))
    for i in range(4):
        worker.submit(i, torch.randn(3, 16))
    print({k: v.sum().item() for k, v in worker.drain().items()})


if __name__ == "__main__":
    main()
