"""Trains a classifier with captured momentum SGD and a cosine schedule."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class CosineSchedule:
    def __init__(self, peak: float, warmup: int, total: int):
        self.peak, self.warmup, self.total = peak, warmup, total

    def at(self, step: int) -> float:
        if step < self.warmup:
            return self.peak * (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.total - self.warmup)
        return 0.5 * self.peak * (1 + math.cos(math.pi * done))


class Momentum:
    def __init__(self, params, momentum: float = 0.9):
        self.params = list(params)
        self.buffers = [torch.zeros_like(p) for p in self.params]
        self.momentum = momentum
        self.lr = 0.0

    @torch.no_grad()
    def apply(self, grads) -> None:
        torch._foreach_mul_(self.buffers, self.momentum)
        torch._foreach_add_(self.buffers, grads)
        torch._foreach_add_(self.params, self.buffers, alpha=-self.lr)

    def reset(self) -> None:
        torch._foreach_zero_(self.buffers)


class CapturedTrainer:
    def __init__(self, model: nn.Module, x: torch.Tensor, y: torch.Tensor, schedule: CosineSchedule):
        self.model, self.schedule = model, schedule
        self.x, self.y = x.clone(), y.clone()
        self.optimizer = Momentum(model.parameters())
        device = x.device
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._update()
        torch.cuda.current_stream(device).wait_stream(stream)
        self.optimizer.lr = schedule.at(0)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.loss = self._update()
        self.optimizer.reset()

    def _update(self) -> torch.Tensor:
        loss = F.cross_entropy(self.model(self.x), self.y)
        self.optimizer.apply(torch.autograd.grad(loss, self.optimizer.params))
        return loss.detach()

    def fit(self, batches) -> torch.Tensor:
        total = torch.zeros_like(self.loss)
        for step, (x, y) in enumerate(batches):
            self.optimizer.lr = self.schedule.at(step)
            self.x.copy_(x)
            self.y.copy_(y)
            self.graph.replay()
            total += self.loss
        return total / len(batches)


def main():
    device = torch.device("cuda", torch.cuda.current_device())
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
    x = torch.randn(60, 16, 10, device=device)
    y = (x[..., :4] * 2).argmax(-1)
    trainer = CapturedTrainer(model, x[0], y[0], CosineSchedule(0.2, warmup=5, total=60))
    mean = trainer.fit(list(zip(x, y)))
    print("mean loss", float(mean))


if __name__ == "__main__":
    main()
