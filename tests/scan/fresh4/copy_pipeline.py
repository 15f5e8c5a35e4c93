"""Stream host batches through a captured feature extractor with overlapping copies."""
from __future__ import annotations

import itertools
from typing import Iterable, Iterator

import torch
from torch import nn


class Slot:
    """A device buffer that travels between the copy stream and the compute stream."""

    def __init__(self, shape: tuple[int, ...], device: str):
        self.data = torch.zeros(shape, device=device)
        self.filled = torch.cuda.Event()
        self.drained = torch.cuda.Event()


class Pipeline:
    def __init__(self, shape: tuple[int, ...], depth: int = 2, device: str = "cuda"):
        self.slots = [Slot(shape, device) for _ in range(depth)]
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    def _fill(self, slot: Slot, batch: torch.Tensor) -> Slot:
        pinned = batch.pin_memory()
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(slot.drained)
            slot.data.copy_(pinned, non_blocking=True)
            slot.filled.record(self.stream)
        return slot

    def __call__(self, batches: Iterable[torch.Tensor]) -> Iterator[Slot]:
        ring = itertools.cycle(self.slots)
        ahead = None
        for batch in batches:
            slot = self._fill(next(ring), batch)
            if ahead is not None:
                yield ahead
            ahead = slot
        if ahead is not None:
            yield ahead


class Extractor:
    def __init__(self, net: nn.Module, shape: tuple[int, ...], features: int, device: str = "cuda"):
        self.net = net
        self.x = torch.zeros(shape, device=device)
        self.total = torch.zeros(features, device=device)
        self.graph: torch.cuda.CUDAGraph | None = None

    def _forward(self) -> torch.Tensor:
        return self.net(self.x).mean(0)

    @torch.no_grad()
    def capture(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._forward()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.mean = self._forward()

    def consume(self, slots: Iterator[Slot]) -> torch.Tensor:
        if self.graph is None:
            self.capture()
        self.total.zero_()
        compute = torch.cuda.current_stream()
        for slot in slots:
            compute.wait_event(slot.filled)
            self.x.copy_(slot.data)
            slot.drained.record(compute)
            self.graph.replay()
            self.total.add_(self.mean)
        return self.total.clone()


def main() -> None:
    shape = (64, 3, 32, 32)
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    ).to("cuda").eval()
    extractor = Extractor(net, shape, features=16)
    source = (torch.randn(shape) for _ in range(200))
    total = extractor.consume(Pipeline(shape)(source))
    print(total.norm().item())


if __name__ == "__main__":
    main()
