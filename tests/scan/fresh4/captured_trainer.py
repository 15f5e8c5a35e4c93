"""Train a classifier with one captured step and a cosine learning rate."""
from __future__ import annotations

import math
from typing import Callable, Iterable

import torch
from torch import nn


class Cosine:
    def __init__(self, base: float, total: int, warm: int = 20):
        self.base, self.total, self.warm = base, total, warm

    def __call__(self, step: int) -> float:
        ramp = min(1.0, (step + 1) / self.warm)
        return self.base * ramp * 0.5 * (1 + math.cos(math.pi * min(step, self.total) / self.total))


class Meter:
    """Running mean of device scalars, kept on the device."""

    def __init__(self, device: str):
        self.sum = torch.zeros((), device=device)
        self.count = 0

    def __call__(self, step: int, loss: torch.Tensor) -> None:
        self.sum.add_(loss)
        self.count += 1

    def __float__(self) -> float:
        return float(self.sum) / max(1, self.count)


class Trainer:
    def __init__(self, net: nn.Module, batch: int, features: int, schedule: Cosine, device: str = "cuda"):
        self.net = net
        self.schedule = schedule
        self.x = torch.zeros(batch, features, device=device)
        self.y = torch.zeros(batch, dtype=torch.long, device=device)
        self.lr = torch.full((), schedule(0), device=device)
        self.opt = torch.optim.AdamW(net.parameters(), lr=self.lr, capturable=True)
        self.hooks: list[Callable[[int, torch.Tensor], None]] = []
        self.graph: torch.cuda.CUDAGraph | None = None

    def _step(self) -> torch.Tensor:
        loss = nn.functional.cross_entropy(self.net(self.x), self.y)
        loss.backward()
        self.opt.step()
        return loss.detach()

    def record(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.opt.zero_grad(set_to_none=True)
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        self.opt.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self._step()

    def fit(self, batches: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> int:
        steps = 0
        for step, (x, y) in enumerate(batches):
            self.x.copy_(x.pin_memory(), non_blocking=True)
            self.y.copy_(y.pin_memory(), non_blocking=True)
            if self.graph is None:
                self.record()
            self.lr.fill_(self.schedule(step))
            self.graph.replay()
            for hook in self.hooks:
                hook(step, self.loss)
            steps += 1
        return steps


def main() -> None:
    device = "cuda"
    net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 3)).to(device)
    trainer = Trainer(net, 128, 20, Cosine(1e-3, total=500), device)
    meter = Meter(device)
    trainer.hooks.append(meter)
    data = ((torch.randn(128, 20), torch.randint(0, 3, (128,))) for _ in range(500))
    trainer.fit(data)
    print(f"mean loss {float(meter):.4f}")


if __name__ == "__main__":
    main()
