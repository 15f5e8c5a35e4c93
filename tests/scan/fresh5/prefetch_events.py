"""Frame scoring with host frames staged ahead, each hand-over marked by an event."""
from __future__ import annotations

from typing import Iterable, Iterator

import numpy as np
import torch
from torch import nn


class FrameNet(nn.Sequential):
    def __init__(self, channels: int = 8, classes: int = 6):
        super().__init__(
            nn.Conv2d(3, channels, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(channels, classes),
        )


class Staging:
    def __init__(self, shape: tuple[int, ...], device, slots: int = 3):
        self.pinned = [torch.empty(shape, pin_memory=True) for _ in range(slots)]
        self.device = [torch.empty(shape, device=device) for _ in range(slots)]
        self.arrived = [torch.cuda.Event() for _ in range(slots)]
        self.consumed = [torch.cuda.Event() for _ in range(slots)]
        self.stream = torch.cuda.Stream()

    def __len__(self) -> int:
        return len(self.pinned)

    def put(self, ticket: int, frame: np.ndarray) -> None:
        slot = ticket % len(self)
        self.arrived[slot].synchronize()
        self.pinned[slot].numpy()[...] = frame
        self.stream.wait_event(self.consumed[slot])
        with torch.cuda.stream(self.stream):
            self.device[slot].copy_(self.pinned[slot], non_blocking=True)
            self.arrived[slot].record()

    def take(self, ticket: int, into: torch.Tensor) -> None:
        slot = ticket % len(self)
        torch.cuda.current_stream().wait_event(self.arrived[slot])
        into.copy_(self.device[slot])
        self.consumed[slot].record()


class FrameScorer:
    def __init__(self, net: nn.Module, shape: tuple[int, ...], device):
        self.net = net
        self.static = torch.zeros(shape, device=device)
        self.staging = Staging(shape, device)
        self.graph = torch.cuda.CUDAGraph()
        self._capture()

    @torch.no_grad()
    def _capture(self) -> None:
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(3):
                self.net(self.static).softmax(-1)
        torch.cuda.current_stream().wait_stream(warm)
        with torch.cuda.graph(self.graph):
            self.scores = self.net(self.static).softmax(-1)

    def stream(self, frames: Iterable[np.ndarray]) -> Iterator[torch.Tensor]:
        frames = iter(frames)
        pending = next(frames, None)
        if pending is None:
            return
        self.staging.put(0, pending)
        ticket = 0
        for upcoming in frames:
            self.staging.put(ticket + 1, upcoming)
            yield self._score(ticket)
            ticket += 1
        yield self._score(ticket)

    def _score(self, ticket: int) -> torch.Tensor:
        self.staging.take(ticket, self.static)
        self.graph.replay()
        return self.scores.clone()


def camera(count: int, shape: tuple[int, ...], seed: int = 0) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield rng.random(shape, dtype=np.float32)


def main(device="cuda", count: int = 20, shape=(1, 3, 32, 32)):
    torch.manual_seed(0)
    scorer = FrameScorer(FrameNet().to(device).eval(), shape, device)
    votes = list(scorer.stream(camera(count, shape)))
    return torch.cat(votes).mean(0)


if __name__ == "__main__":
    print(main())
