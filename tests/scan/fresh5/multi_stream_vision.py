"""Three small vision stages, each captured once and replayed for every frame."""
from __future__ import annotations

import contextlib
from typing import Iterable, Iterator

import torch
from torch import nn
from torch.nn import functional as F


class Stage:
    """A captured callable with its own graph; subclasses fill in `body`."""

    def __init__(self, pool):
        self.graph = torch.cuda.CUDAGraph()
        self.pool = pool

    def body(self):
        raise NotImplementedError

    @torch.no_grad()
    def build(self) -> "Stage":
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.body()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph, pool=self.pool):
            self.out = self.body()
        return self

    def __call__(self):
        self.graph.replay()
        return self.out


@contextlib.contextmanager
def on(stream):
    """Run a block on `stream`, after what is queued on the current one."""
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield


class Pyramid(Stage):
    def __init__(self, frame: torch.Tensor, pool):
        super().__init__(pool)
        self.frame = frame
        self.coarse_stream = torch.cuda.Stream()
        self.net = nn.Conv2d(3, 8, 3, padding=1).to(frame.device)

    def body(self):
        with on(self.coarse_stream):
            coarse = F.avg_pool2d(self.frame, 4)
        fine = self.net(self.frame).relu()
        return fine, coarse


class Histogram(Stage):
    def __init__(self, frame: torch.Tensor, pool, bins: int = 16):
        super().__init__(pool)
        self.frame = frame
        self.bins = bins
        self.counts = torch.zeros(bins, device=frame.device)
        self.streams = [torch.cuda.Stream() for _ in range(2)]

    def body(self):
        self.counts.zero_()
        for stream, part in zip(self.streams, self.frame.chunk(2, dim=2)):
            with on(stream):
                cell = (part.clamp(0, 0.999) * self.bins).long().flatten()
                self.counts.add_(F.one_hot(cell, self.bins).sum(0))
        for stream in self.streams:
            torch.cuda.current_stream().wait_stream(stream)
        return self.counts / self.frame.numel()


class Contrast(Stage):
    def __init__(self, fine: torch.Tensor, hist: torch.Tensor, pool):
        super().__init__(pool)
        self.fine, self.hist = fine, hist

    def body(self):
        weight = self.hist.cumsum(0).square().mean()
        return (self.fine * weight).mean((2, 3))


class Pipeline:
    def __init__(self, shape, device):
        pool = torch.cuda.graph_pool_handle()
        self.frame = torch.zeros(shape, device=device)
        self.pyramid = Pyramid(self.frame, pool).build()
        self.histogram = Histogram(self.frame, pool).build()
        self.contrast = Contrast(self.pyramid.out[0], self.histogram.out, pool).build()

    @torch.no_grad()
    def run(self, frames: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
        for frame in frames:
            self.frame.copy_(frame)
            self.pyramid()
            self.histogram()
            torch.cuda.synchronize()
            yield self.contrast.body()


def main(device="cuda", frames: int = 8, shape=(1, 3, 32, 32)):
    torch.manual_seed(0)
    pipeline = Pipeline(shape, device)
    source = (torch.rand(shape, device=device) for _ in range(frames))
    return torch.cat(list(pipeline.run(source)))


if __name__ == "__main__":
    print(main().shape)
