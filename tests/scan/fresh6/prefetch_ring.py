"""Streams batches from a host reader into a replayed forward pass."""
import time
from collections import deque

import torch
from torch import nn


class Reader:
    """Stands in for a decoder that fills batches on the host."""

    def __init__(self, batch, n_in, total):
        self.shape = (batch, n_in)
        self.total = total

    def __iter__(self):
        g = torch.Generator().manual_seed(17)
        for _ in range(self.total):
            x = torch.randn(self.shape, generator=g)
            yield x, torch.rand(self.shape[0], generator=g)


class PinnedRing:
    def __init__(self, depth, shape):
        self.slots = [torch.empty(shape, pin_memory=True) for _ in range(depth)]
        self.free = deque(range(depth))

    def fill(self, batch):
        i = self.free.popleft()
        self.slots[i].copy_(batch)
        self.free.append(i)
        return self.slots[i]


class Feeder:
    def __init__(self, static_x, static_w, depth=2):
        self.x = static_x
        self.w = static_w
        self.ring = PinnedRing(depth, tuple(static_x.shape))
        self.stream = torch.cuda.Stream(device=static_x.device)
        self.consumed = torch.cuda.Event()

    def put(self, x, weight):
        staged = self.ring.fill(x)
        weight = weight.pin_memory()
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(self.consumed)
            self.x.copy_(staged, non_blocking=True)
            self.w.copy_(weight, non_blocking=True)

    def release(self):
        self.consumed.record(torch.cuda.current_stream(self.x.device))


class Scorer:
    def __init__(self, net, batch, n_in, device):
        self.net = net
        self.x = torch.zeros(batch, n_in, device=device)
        self.w = torch.ones(batch, device=device)
        self.graph = torch.cuda.CUDAGraph()
        self.out = None

    @torch.no_grad()
    def _forward(self):
        return torch.sigmoid(self.net(self.x).squeeze(1)) * self.w

    def capture(self):
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(3):
                self._forward()
        torch.cuda.current_stream().wait_stream(warm)
        with torch.cuda.graph(self.graph):
            self.out = self._forward()

    def run(self):
        self.graph.replay()
        return self.out


def score_all(reader, scorer, feeder):
    kept = []
    for x, weight in reader:
        feeder.put(x, weight)
        kept.append(scorer.run())
        feeder.release()
    return torch.cat(kept).cpu()


def main(batch=512, n_in=256, total=200):
    device = torch.device("cuda", torch.cuda.current_device())
    net = nn.Sequential(nn.Linear(n_in, 512), nn.GELU(), nn.Linear(512, 1)).to(device).eval()
    scorer = Scorer(net, batch, n_in, device)
    scorer.capture()
    feeder = Feeder(scorer.x, scorer.w)
    start = time.perf_counter()
    scores = score_all(Reader(batch, n_in, total), scorer, feeder)
    print(f"{scores.numel() / (time.perf_counter() - start):.0f} rows/s")


if __name__ == "__main__":
    main()
