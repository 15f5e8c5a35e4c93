"""Diffusion with continuous batching: each row of the batch is at a time step of its own."""

from collections import deque
from dataclasses import dataclass

import torch
from torch import nn

ROWS, DIM = 6, 64


@dataclass
class Job:
    number: int
    steps: int
    done: int = 0

    @property
    def level(self) -> float:
        return 1.0 - self.done / self.steps


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Linear(8, DIM)
        self.body = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.SiLU(), nn.Linear(2 * DIM, DIM))
        self.register_buffer("waves", 2.0 ** torch.arange(4))

    def forward(self, x: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
        phase = level[:, None] * self.waves
        return self.body(x + self.time(torch.cat((phase.sin(), phase.cos()), dim=-1)))


class Batcher:
    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.net = Net().to(device).eval()
        self.x = torch.zeros(ROWS, DIM, device=device)
        self.level = torch.ones(ROWS, device=device)
        self.rate = torch.zeros(ROWS, device=device)
        self.rows: list[Job | None] = [None] * ROWS
        self.waiting: deque[Job] = deque()
        self.finished: dict[int, torch.Tensor] = {}
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.update()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.update()

    def update(self) -> None:
        self.x.sub_(self.net(self.x, self.level) * self.rate[:, None])

    def admit(self) -> None:
        for row, job in enumerate(self.rows):
            if job is None and self.waiting:
                fresh = self.waiting.popleft()
                self.rows[row] = fresh
                self.x[row].normal_()
                self.rate[row].fill_(1.0 / fresh.steps)

    def step(self) -> None:
        self.admit()
        levels = [job.level if job is not None else 0.0 for job in self.rows]
        self.level.copy_(torch.tensor(levels, device=self.device))
        self.graph.replay()
        for row, job in enumerate(self.rows):
            if job is None:
                continue
            job.done += 1
            if job.done == job.steps:
                self.finished[job.number] = self.x[row].clone()
                self.rows[row] = None
                self.rate[row].zero_()

    def busy(self) -> bool:
        return bool(self.waiting) or any(job is not None for job in self.rows)


@torch.no_grad()
def main() -> None:
    torch.manual_seed(53)
    batcher = Batcher(torch.device("cuda"))
    for number in range(24):
        batcher.waiting.append(Job(number, steps=8 + 3 * (number % 5)))
    ticks = 0
    while batcher.busy():
        batcher.step()
        ticks += 1
    table = torch.stack([batcher.finished[number] for number in sorted(batcher.finished)])
    print(len(table), "pictures in", ticks, "steps, mean", f"{table.mean().item():+.5f}")


if __name__ == "__main__":
    main()
