"""Self-distillation with the teacher, the rate and the row weights updated in place."""
from __future__ import annotations

import copy
import math
from typing import Iterable

import torch
from torch import nn
from torch.nn import functional as F


class Encoder(nn.Module):
    def __init__(self, inputs: int, dim: int = 64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, dim), nn.GELU(), nn.LayerNorm(dim), nn.Linear(dim, dim))

    def forward(self, x):
        return F.normalize(self.body(x), dim=-1)


def batches(rows: int, size: int, inputs: int, device, seed: int = 0) -> Iterable[torch.Tensor]:
    gen = torch.Generator().manual_seed(seed)
    data = torch.randn(rows, inputs, generator=gen).to(device)
    yield from data.split(size)


class Distiller:
    def __init__(self, student: Encoder, size: int, inputs: int, device, momentum: float = 0.99):
        self.student = student
        self.teacher = copy.deepcopy(student).requires_grad_(False)
        self.momentum = momentum
        self.view = torch.zeros(size, inputs, device=device)
        self.weight = torch.ones(size, device=device)
        self.lr = torch.tensor(1e-3, device=device)
        self.opt = torch.optim.AdamW(student.parameters(), lr=self.lr, capturable=True)
        self.running = torch.zeros((), device=device)
        self.graph = torch.cuda.CUDAGraph()

    def _update(self) -> None:
        clean = self.view
        noisy = clean + 0.1 * torch.randn_like(clean)
        with torch.no_grad():
            goal = self.teacher(clean)
        each = 2.0 - 2.0 * (self.student(noisy) * goal).sum(-1)
        loss = (each * self.weight).sum() / self.weight.sum()
        loss.backward()
        self.opt.step()
        self.running.lerp_(loss.detach(), 0.05)
        with torch.no_grad():
            slow, fast = list(self.teacher.parameters()), list(self.student.parameters())
            torch._foreach_lerp_(slow, fast, 1.0 - self.momentum)

    def prepare(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.opt.zero_grad(set_to_none=True)
                self._update()
        torch.cuda.current_stream().wait_stream(side)
        self.opt.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self._update()

    def _feed(self, x: torch.Tensor) -> None:
        n = x.shape[0]
        self.view[:n].copy_(x)
        self.weight.zero_()
        self.weight[:n].fill_(1.0)

    def fit(self, epochs: int, stream) -> torch.Tensor:
        for epoch in range(epochs):
            self.lr.fill_(1e-3 * 0.5 * (1.0 + math.cos(math.pi * epoch / epochs)))
            for x in stream(epoch):
                self._feed(x)
                self.graph.replay()
        return self.running


def main(device="cuda", rows: int = 500, size: int = 64, inputs: int = 16):
    torch.manual_seed(0)
    distiller = Distiller(Encoder(inputs).to(device), size, inputs, device)
    distiller.prepare()
    return distiller.fit(8, lambda epoch: batches(rows, size, inputs, device, epoch))


if __name__ == "__main__":
    print(float(main()))
