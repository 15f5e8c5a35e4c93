"""Langevin sampling of a small energy with a captured Heun step."""
from __future__ import annotations

import math
from typing import Callable, Iterator

import torch

Drift = Callable[[torch.Tensor], torch.Tensor]


def double_well(depth: float = 1.0) -> Drift:
    def drift(x: torch.Tensor) -> torch.Tensor:
        return -4.0 * depth * x * (x.square() - 1.0)

    return drift


class Chain:
    def __init__(self, walkers: int, dim: int, device, drift: Drift, dt: float = 0.02, seed: int = 17):
        self.drift = drift
        self.dt = dt
        self.gen = torch.Generator(device=device)
        self.gen.manual_seed(seed)
        self.now = torch.randn(walkers, dim, device=device, generator=self.gen)
        self.after = torch.empty_like(self.now)
        self.mean = torch.zeros(dim, device=device)
        self.count = torch.zeros((), device=device)

    def advance(self) -> None:
        noise = torch.randn(self.now.shape, device=self.now.device, generator=self.gen)
        slope = self.drift(self.now)
        kick = math.sqrt(2.0 * self.dt) * noise
        guess = self.now + self.dt * slope + kick
        torch.add(self.now, 0.5 * self.dt * (slope + self.drift(guess)) + kick, out=self.after)
        self.now, self.after = self.after, self.now
        self.count.add_(1.0)
        self.mean.add_((self.now.mean(0) - self.mean) / self.count)


class Recorder:
    """Wraps a callable without arguments; first use records, later uses replay."""

    def __init__(self, fn: Callable[[], None]):
        self.fn = fn
        self.graph: torch.cuda.CUDAGraph | None = None

    def record(self) -> None:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self.fn()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            self.fn()
        self.graph = graph

    def __call__(self) -> None:
        if self.graph is None:
            self.record()
        self.graph.replay()


class Annealed:
    def __init__(self, chain: Chain, cooling: float = 0.98, every: int = 50):
        self.chain = chain
        self.cooling, self.every = cooling, every
        self.step = Recorder(chain.advance)

    def samples(self, steps: int) -> Iterator[torch.Tensor]:
        for k in range(1, steps + 1):
            self.step()
            if k % self.every == 0:
                self.chain.dt *= self.cooling
                yield self.chain.mean.clone()


@torch.no_grad()
def main(device="cuda", steps: int = 300):
    chain = Chain(256, 3, device, double_well())
    return torch.stack(list(Annealed(chain).samples(steps)))


if __name__ == "__main__":
    print(main())
