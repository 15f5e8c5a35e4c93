"""Self-distillation: a captured student update with a slowly moving teacher."""
from __future__ import annotations

import copy
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
        self.opt = torch.optim.AdamW(student.parameters(), lr=1e-3, weight_decay=0.02)
        self.decay = torch.optim.lr_scheduler.StepLR(self.opt, step_size=4, gamma=0.5)
        self.running = torch.zeros((), device=device)
        self.graph = torch.cuda.CUDAGraph()

    def _update(self) -> None:
        clean = self.view
        noisy = clean + 0.1 * torch.randn_like(clean)
        with torch.no_grad():
            goal = self.teacher(clean)
        loss = (2.0 - 2.0 * (self.student(noisy) * goal).sum(-1)).mean()
        loss.backward()
        self.opt.step()
        self.running.lerp_(loss.detach(), 0.05)

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

    @torch.no_grad()
    def _follow(self) -> None:
        pairs = zip(self.teacher.parameters(), self.student.parameters(), strict=True)
        for slow, fast in pairs:
            slow.data = torch.lerp(fast, slow, self.momentum)

    def fit(self, epochs: int, stream) -> torch.Tensor:
        for epoch in range(epochs):
            for x in stream(epoch):
                self.view[: x.shape[0]].copy_(x)
                self.graph.replay()
                self._follow()
            self.decay.step()
        return self.running


def main(device="cuda", rows: int = 500, size: int = 64, inputs: int = 16):
    torch.manual_seed(0)
    distiller = Distiller(Encoder(inputs).to(device), size, inputs, device)
    distiller.prepare()
    return distiller.fit(8, lambda epoch: batches(rows, size, inputs, device, epoch))


if __name__ == "__main__":
    print(float(main()))
