"""Train a classifier with one captured step; batches are moved in by a copy stream."""
from __future__ import annotations

from typing import Callable, Iterable, Iterator

import torch
from torch import nn


class Feeder:
    """Moves host batches into the static inputs, one batch ahead of the trainer."""

    def __init__(self, batches: Iterable, x: torch.Tensor, y: torch.Tensor):
        self.source: Iterator = iter(batches)
        self.x, self.y = x, y
        self.stream = torch.cuda.Stream()

    def advance(self) -> bool:
        batch = next(self.source, None)
        if batch is None:
            return False
        x, y = (part.pin_memory() for part in batch)
        with torch.cuda.stream(self.stream):
            self.x.copy_(x, non_blocking=True)
            self.y.copy_(y, non_blocking=True)
        return True

    def ready(self) -> None:
        torch.cuda.current_stream().wait_stream(self.stream)


class Trainer:
    def __init__(self, net: nn.Module, batch: int, features: int, class_weight: list[float], device="cuda"):
        self.net = net
        self.device = device
        self.class_weight = torch.tensor(class_weight, device=device)
        self.x = torch.zeros(batch, features, device=device)
        self.y = torch.zeros(batch, dtype=torch.long, device=device)
        self.opt = torch.optim.SGD(net.parameters(), lr=0.1)
        self.decay = torch.optim.lr_scheduler.ExponentialLR(self.opt, gamma=0.99)
        self.hooks: list[Callable] = []

    def _step(self) -> torch.Tensor:
        self.opt.zero_grad(set_to_none=True)
        scores = self.net(self.x)
        loss = nn.functional.cross_entropy(scores, self.y, weight=self.class_weight)
        loss.backward()
        self.opt.step()
        return loss.detach()

    def record(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self._step()

    def fit(self, batches: Iterable) -> int:
        feeder = Feeder(batches, self.x, self.y)
        self.record()
        steps = 0
        more = feeder.advance()
        while more:
            feeder.ready()
            self.graph.replay()
            self.decay.step()
            more = feeder.advance()
            for hook in self.hooks:
                hook(steps, self.loss)
            steps += 1
        return steps


def main() -> None:
    device = "cuda"
    net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 3)).to(device)
    trainer = Trainer(net, batch=128, features=20, class_weight=[1.0, 2.0, 0.5], device=device)
    trainer.hooks.append(lambda step, loss: print(f"{step:05d} loss {loss:.4f}"))
    data = ((torch.randn(128, 20), torch.randint(0, 3, (128,))) for _ in range(500))
    trainer.fit(data)


if __name__ == "__main__":
    main()
