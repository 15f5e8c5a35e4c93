"""Streams batches from a host reader into a replayed forward pass, slot by slot."""
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


class Slot:
    def __init__(self, shape):
        self.x = torch.empty(shape, pin_memory=True)
        self.w = torch.empty(shape[0], pin_memory=True)
        self.sent = torch.cuda.Event()

    def fill(self, x, weight):
        self.sent.synchronize()
        self.x.copy_(x)
        self.w.copy_(weight)


class Feeder:
    def __init__(self, static_x, static_w, depth=3):
        self.x = static_x
        self.w = static_w
        self.slots = deque(Slot(tuple(static_x.shape)) for _ in range(depth))
        self.stream = torch.cuda.Stream(device=static_x.device)
        self.stream.wait_stream(torch.cuda.current_stream(static_x.device))
        self.consumed = torch.cuda.Event()

    def put(self, x, weight):
        slot = self.slots[0]
        self.slots.rotate(-1)
        slot.fill(x, weight)
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(self.consumed)
            self.x.copy_(slot.x, non_blocking=True)
            self.w.copy_(slot.w, non_blocking=True)
            slot.sent.record(self.stream)
        torch.cuda.current_stream(self.x.device).wait_event(slot.sent)

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

    def run_into(self, row):
        self.graph.replay()
        row.copy_(self.out)


def score_all(reader, scorer, feeder):
    kept = torch.empty(reader.total, reader.shape[0], device=scorer.x.device)
    for row, (x, weight) in zip(kept, reader):
        feeder.put(x, weight)
        scorer.run_into(row)
        feeder.release()
    return kept.flatten().cpu()


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
