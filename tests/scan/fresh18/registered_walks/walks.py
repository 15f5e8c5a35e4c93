"""Random walks in a learned potential, with a random state of their own for each service."""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class WalkConfig:
    walkers: int = 16
    dim: int = 6
    length: int = 40
    rate: float = 0.01


class Potential(nn.Module):
    def __init__(self, dim: int, width: int):
        super().__init__()
        self.w = nn.Parameter(torch.randn(dim, width) / dim**0.5)
        self.b = nn.Parameter(torch.zeros(width))

    def force(self, x: torch.Tensor) -> torch.Tensor:
        return -(torch.sigmoid(x @ self.w + self.b) @ self.w.T + x)


class WalkService:
    def __init__(self, potential: Potential, config: WalkConfig, device):
        self.potential, self.config, self.device = potential, config, device
        self.generator = torch.Generator(device=device)
        self.x = torch.zeros(config.walkers, config.dim, device=device)
        self.visits = torch.zeros(config.dim, device=device)
        self.graph = torch.cuda.CUDAGraph()
        self.graph.register_generator_state(self.generator)
        self.served = 0
        self._capture()

    def _move(self) -> None:
        noise = torch.empty_like(self.x).normal_(generator=self.generator)
        rate = self.config.rate
        self.x.add_(self.potential.force(self.x), alpha=rate).add_(noise, alpha=(2 * rate) ** 0.5)
        self.visits.add_((self.x.abs() < 1).float().mean(0))

    def _capture(self) -> None:
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._move()
        torch.cuda.current_stream(self.device).wait_stream(stream)
        with torch.cuda.graph(self.graph, stream=stream):
            self._move()

    def walk(self, start: torch.Tensor, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The same seed and start give the same walks."""
        self.generator.manual_seed(seed)
        self.x.copy_(start)
        self.visits.zero_()
        for _ in range(self.config.length):
            self.graph.replay()
        self.served += 1
        return self.x.clone(), self.visits / self.config.length


@torch.no_grad()
def main():
    device = torch.device("cuda", torch.cuda.current_device())
    torch.manual_seed(0)
    config = WalkConfig()
    service = WalkService(Potential(config.dim, 12).to(device), config, device)
    start = torch.randn(config.walkers, config.dim, device=device)
    ends = [service.walk(start, seed)[0] for seed in (1, 2, 3, 1)]
    print("served", service.served, "repeatable", bool((ends[0] == ends[3]).all()))


if __name__ == "__main__":
    main()
