"""Distil a student into the image of a slowly following teacher, step captured once."""
from __future__ import annotations

import copy

import torch
from torch import nn
import torch.nn.functional as F


class Progress:
    def __init__(self, window: int = 50):
        self.window = window
        self.values: list[float] = []

    def __iadd__(self, loss):
        self.values.append(float(loss))
        del self.values[: -self.window]
        return self

    @property
    def mean(self) -> float:
        return sum(self.values) / max(1, len(self.values))


class Distiller:
    def __init__(self, student: nn.Module, batch: int, dim: int, device: str = "cuda"):
        self.student = student
        self.teacher = copy.deepcopy(student).requires_grad_(False)
        self.x = torch.zeros(batch, dim, device=device)
        self.opt = torch.optim.AdamW(student.parameters(), lr=2e-3, weight_decay=0.05)
        self.temperature = torch.full((), 4.0, device=device)
        self.strength = torch.zeros((), device=device)
        self.graph: torch.cuda.CUDAGraph | None = None

    def loss_of(self, x: torch.Tensor) -> torch.Tensor:
        tau = self.temperature
        with torch.no_grad():
            soft = F.softmax(self.teacher(x) / tau, dim=-1)
        hard = F.log_softmax(self.student(x + 0.05 * torch.randn_like(x)) / tau, dim=-1)
        return F.kl_div(hard, soft, reduction="batchmean") * tau ** 2

    def _measure(self) -> None:
        with torch.cuda.stream(torch.cuda.default_stream()):
            norms = [p.grad.norm() for p in self.student.parameters()]
            self.strength.copy_(torch.stack(norms).amax())

    def _update(self) -> torch.Tensor:
        self.opt.zero_grad(set_to_none=True)
        loss = self.loss_of(self.x)
        loss.backward()
        self._measure()
        self.opt.step()
        return loss.detach()

    def _capture(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._update()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self._update()

    @torch.no_grad()
    def follow(self, rate: float = 0.01) -> None:
        for slow, fast in zip(self.teacher.parameters(), self.student.parameters()):
            slow.data = torch.lerp(slow.data, fast.data, rate)

    def fit(self, batches, progress: Progress) -> Progress:
        if self.graph is None:
            self._capture()
        for batch in batches:
            self.x.copy_(batch)
            self.graph.replay()
            self.follow()
            self.temperature.mul_(0.995).clamp_(min=1.0)
            progress += self.loss
        return progress


if __name__ == "__main__":
    device = "cuda"
    net = nn.Sequential(nn.Linear(24, 64), nn.GELU(), nn.Linear(64, 10)).to(device)
    feed = (torch.randn(64, 24, device=device) for _ in range(1000))
    print(Distiller(net, 64, 24, device).fit(feed, Progress()).mean)
