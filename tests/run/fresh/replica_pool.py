"""One captured replica of a small ranking model on each GPU of a host."""
import itertools
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


class SinusoidalPositions(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width

    def forward(self, length):
        pos = torch.arange(length, device="cuda").float()
        inv = torch.exp(torch.arange(0, self.width, 2, device=pos.device) * (-9.0 / self.width))
        arg = pos[:, None] * inv
        return torch.cat([arg.sin(), arg.cos()], -1)


class Ranker(nn.Module):
    def __init__(self, features=32, width=64, length=16):
        super().__init__()
        self.inp = nn.Linear(features, width)
        self.positions = SinusoidalPositions(width)
        self.attn = nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True)
        self.out = nn.Linear(width, 1)
        self.length = length

    def forward(self, x):
        h = self.inp(x) + self.positions(self.length).to(x.device, non_blocking=True)
        return self.out(self.attn(h)).squeeze(-1)


class Replica:
    def __init__(self, factory, shape, index):
        self.device = torch.device("cuda", index)
        self.model = factory().to(self.device).eval()
        self.x = torch.zeros(shape, device=self.device)
        self.graph = torch.cuda.CUDAGraph()
        self.scores = None

    def warm(self, times=3):
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side), torch.inference_mode():
            for _ in range(times):
                self.model(self.x)
        torch.cuda.current_stream(self.device).wait_stream(side)

    def capture(self):
        with torch.inference_mode(), torch.cuda.graph(self.graph):
            self.scores = self.model(self.x)

    def rank(self, x):
        self.x.copy_(x, non_blocking=True)
        self.graph.replay()
        return self.scores.argsort(-1, descending=True)


class ReplicaPool:
    def __init__(self, shape, count=None):
        count = count or torch.cuda.device_count()
        self.replicas = [Replica(Ranker, shape, i) for i in range(count)]
        for replica in self.replicas:
            replica.warm()
            replica.capture()
        self.turn = itertools.cycle(self.replicas)
        self.workers = ThreadPoolExecutor(count)

    def submit(self, x):
        return self.workers.submit(next(self.turn).rank, x)
