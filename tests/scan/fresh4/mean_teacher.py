"""Distil a student into a slowly following copy of itself, step captured once."""
from __future__ import annotations

import copy

import torch
from torch import nn
import torch.nn.functional as F


class Progress:
    def __init__(self, device: str, rate: float = 0.02):
        self.rate = rate
        self.value = torch.zeros((), device=device)

    def __iadd__(self, loss: torch.Tensor) -> "Progress":
        self.value.lerp_(loss, self.rate)
        return self


class MeanTeacher:
    def __init__(self, student: nn.Module, batch: int, dim: int, device: str = "cuda"):
        self.student = student
        self.teacher = copy.deepcopy(student).requires_grad_(False)
        self.pairs = list(zip(self.teacher.parameters(), self.student.parameters()))
        self.x = torch.zeros(batch, dim, device=device)
        self.tau = torch.full((), 4.0, device=device)
        self.opt = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9)
        self.graph: torch.cuda.CUDAGraph | None = None

    def loss_of(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            soft = F.softmax(self.teacher(x) / self.tau, dim=-1)
        hard = F.log_softmax(self.student(x + 0.05 * torch.randn_like(x)) / self.tau, dim=-1)
        return F.kl_div(hard, soft, reduction="batchmean") * self.tau.square()

    def _update(self) -> torch.Tensor:
        loss = self.loss_of(self.x)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.student.parameters(), 1.0)
        self.opt.step()
        return loss.detach()

    def _capture(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.opt.zero_grad(set_to_none=True)
                self._update()
        torch.cuda.current_stream().wait_stream(side)
        self.opt.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self._update()

    @torch.no_grad()
    def follow(self, rate: float = 0.01) -> None:
        for slow, fast in self.pairs:
            slow.lerp_(fast, rate)

    def fit(self, batches, progress: Progress) -> Progress:
        for batch in batches:
            self.x.copy_(batch)
            if self.graph is None:
                self._capture()
            self.graph.replay()
            self.follow()
            self.tau.mul_(0.995).clamp_(min=1.0)
            progress += self.loss
        return progress


if __name__ == "__main__":
    device = "cuda"
    net = nn.Sequential(nn.Linear(24, 64), nn.GELU(), nn.Linear(64, 10)).to(device)
    feed = (torch.randn(64, 24, device=device) for _ in range(1000))
    done = MeanTeacher(net, 64, 24, device).fit(feed, Progress(device))
    print(done.value.item())
