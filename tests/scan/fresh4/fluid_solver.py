"""Pressure projection on a periodic grid with a recorded relaxation sweep."""
from __future__ import annotations

import contextlib
from typing import Iterable

import torch


def laplace(p: torch.Tensor) -> torch.Tensor:
    return (
        p.roll(1, 0) + p.roll(-1, 0) + p.roll(1, 1) + p.roll(-1, 1) - 4 * p
    )


class Stopwatch(contextlib.AbstractContextManager):
    """Time spent on the device between enter and exit, in milliseconds."""

    def __init__(self):
        self.begin = torch.cuda.Event(enable_timing=True)
        self.end = torch.cuda.Event(enable_timing=True)
        self.total = 0.0

    def __enter__(self):
        self.begin.record()
        return self

    def __exit__(self, *exc):
        self.end.record()
        self.end.synchronize()
        self.total += self.begin.elapsed_time(self.end)
        return None


class Projection:
    def __init__(self, size: int, device: str = "cuda", sweeps: int = 12):
        self.device, self.sweeps = device, sweeps
        self.u = torch.zeros(size, size, device=device)
        self.v = torch.zeros(size, size, device=device)
        self.p = torch.zeros(size, size, device=device)
        self.dye = torch.rand(size, size, device=device)
        self.error = torch.zeros((), device=device)
        self.dt = 0.1
        self.side = torch.cuda.Stream()
        self.graph = None

    def relax(self) -> None:
        div = (self.u.roll(-1, 0) - self.u + self.v.roll(-1, 1) - self.v) / self.dt
        for _ in range(self.sweeps):
            self.p.add_((laplace(self.p) - div) * 0.25)
        self.error.copy_((laplace(self.p) - div).abs().amax())

    def tint(self) -> None:
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            flow = self.u * (self.dye.roll(-1, 0) - self.dye)
            self.dye.sub_(self.dt * flow)

    def frame(self) -> None:
        self.tint()
        self.relax()
        self.u.sub_(self.dt * (self.p - self.p.roll(1, 0)))
        self.v.sub_(self.dt * (self.p - self.p.roll(1, 1)))

    def record(self) -> None:
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            self.frame()
        torch.cuda.current_stream().wait_stream(warm)
        torch.cuda.current_stream().wait_stream(self.side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.frame()

    def simulate(self, steps: Iterable[float], watch: Stopwatch) -> float:
        for dt in steps:
            self.dt = dt
            self.record()
            with watch:
                self.graph.replay()
        return watch.total


if __name__ == "__main__":
    sizes = (0.1 / (1 + 0.01 * i) for i in range(200))
    print(Projection(128).simulate(sizes, Stopwatch()))
