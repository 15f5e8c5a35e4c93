"""Two model stages of one worker, each behind its own graph, with an eager collective slot between them."""
import os
import time

import torch
import torch.nn as nn


def worker_device() -> torch.device:
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))


class Stage:
    registry: list["Stage"] = []

    def __init__(self, name: str, module: nn.Module, shape, device: torch.device):
        self.name, self.device = name, device
        self.module = module.to(device)
        self.source = torch.zeros(shape, device=device)
        self.result: torch.Tensor | None = None
        self.graph = torch.cuda.CUDAGraph()
        Stage.registry.append(self)

    @torch.no_grad()
    def record(self):
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(2):
                self.module(self.source)
        torch.cuda.current_stream(self.device).wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.result = self.module(self.source)

    def replay(self):
        self.graph.replay()
        return self.result


class Worker:
    def __init__(self, device: torch.device, dim: int = 24):
        self.device = device
        front = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU())
        back = nn.Sequential(nn.Linear(2 * dim, dim), nn.Tanh())
        self.front = Stage("front", front, (4, dim), device)
        self.back = Stage("back", back, (4, 2 * dim), device)
        self.spent = 0.0

    def record(self):
        for stage in (self.front, self.back):
            stage.record()

    def exchange(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden + hidden.roll(1, dims=0)

    def step(self, x: torch.Tensor) -> torch.Tensor:
        started = time.perf_counter()
        self.front.source.copy_(x)
        hidden = self.exchange(self.front.replay())
        torch.cuda.synchronize(self.device)
        self.back.source.copy_(hidden)
        out = self.back.replay().clone()
        self.spent += time.perf_counter() - started
        return out


def main(device=None):
    device = torch.device(device) if device is not None else worker_device()
    torch.manual_seed(15)
    worker = Worker(device)
    worker.record()
    xs = torch.randn(4, 4, 24, device=device)
    return torch.stack([worker.step(x) for x in xs])


if __name__ == "__main__":
    print(main().norm().item())
