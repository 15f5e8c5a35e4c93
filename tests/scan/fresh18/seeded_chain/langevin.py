"""Draws samples of an energy model by Langevin dynamics; one step is a graph."""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class ChainConfig:
    rows: int = 16
    dim: int = 6
    length: int = 50
    rate: float = 0.01
    seed: int = 1234


class Energy(nn.Module):
    def __init__(self, dim: int, width: int):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(dim, width), nn.Softplus(), nn.Linear(width, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x).squeeze(-1) + 0.5 * x.square().sum(-1)

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        (grad,) = torch.autograd.grad(self(x).sum(), x)
        return grad


class Chain:
    def __init__(self, energy: Energy, config: ChainConfig, device):
        self.energy, self.config, self.device = energy, config, device
        self.x = torch.zeros(config.rows, config.dim, device=device)
        self.moment = torch.zeros(config.rows, config.dim, device=device)
        self.graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._move()
        torch.cuda.current_stream(device).wait_stream(stream)
        with torch.cuda.graph(self.graph, stream=stream):
            self._move()

    def _move(self) -> None:
        rate = self.config.rate
        noise = torch.randn_like(self.x)
        drift = self.energy.gradient(self.x)
        with torch.no_grad():
            self.x.add_(drift, alpha=-rate).add_(noise, alpha=(2 * rate) ** 0.5)
            self.moment.lerp_(self.x.square(), 0.05)

    def restart(self, start: torch.Tensor) -> None:
        self.x.copy_(start)
        self.moment.zero_()

    def sample(self, start: torch.Tensor) -> torch.Tensor:
        self.restart(start)
        for _ in range(self.config.length):
            torch.cuda.manual_seed(self.config.seed)
            self.graph.replay()
        return self.x.clone()


def main():
    device = torch.device("cuda", torch.cuda.current_device())
    torch.manual_seed(0)
    config = ChainConfig()
    energy = Energy(config.dim, 24).to(device).requires_grad_(False)
    chain = Chain(energy, config, device)
    drawn = [chain.sample(torch.randn(config.rows, config.dim, device=device)) for _ in range(4)]
    print("spread", float(torch.stack(drawn).std(0).mean()))


if __name__ == "__main__":
    main()
