"""Self-distillation of a small student from its own moving average, on two views of host-side signals."""
import copy
import random
from typing import Iterator

import torch
import torch.nn.functional as F
from torch import nn


class Student(nn.Module):
    def __init__(self, signal: int = 64, width: int = 48, prototypes: int = 24, depth: int = 4, drop_path: float = 0.3):
        super().__init__()
        self.stem = nn.Linear(signal, width)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU()) for _ in range(depth))
        self.prototypes = nn.Linear(width, prototypes, bias=False)
        self.drop_path = drop_path

    def forward(self, views: torch.Tensor) -> torch.Tensor:
        h = self.stem(views)
        for block in self.blocks:
            if self.training and random.random() < self.drop_path:
                continue
            h = h + block(h)
        return self.prototypes(F.normalize(h, dim=-1))


class Signals:
    """Chirps with two random crops each, made on the host as a data loader would."""

    def __init__(self, batch: int, length: int, seed: int):
        self.batch, self.length = batch, length
        self.generator = torch.Generator().manual_seed(seed)

    def __iter__(self) -> Iterator[torch.Tensor]:
        axis = torch.linspace(0, 12, 2 * self.length)
        while True:
            rate = 0.5 + torch.rand(self.batch, 1, generator=self.generator)
            wave = torch.sin(rate * axis * axis * 0.2)
            starts = torch.randint(0, self.length, (2,), generator=self.generator).tolist()
            yield torch.stack([wave[:, s : s + self.length] for s in starts])


class Uploader:
    """Moves batches into one device buffer by way of pinned memory."""

    def __init__(self, shape, device: torch.device):
        self.pinned = torch.empty(shape, pin_memory=True)
        self.device_views = torch.empty(shape, device=device)

    def send(self, batch: torch.Tensor) -> torch.Tensor:
        self.pinned.copy_(batch)
        self.device_views.copy_(self.pinned, non_blocking=True)
        return self.device_views


class Distiller:
    def __init__(self, student: Student, batch: int, signal: int, device: torch.device):
        self.plain = student
        self.teacher = copy.deepcopy(student).eval().requires_grad_(False)
        self.centre = torch.zeros(student.prototypes.out_features, device=device)
        self.recent: list[torch.Tensor] = []
        sample = torch.randn(batch, signal, device=device)
        self.student = torch.cuda.make_graphed_callables(student, (sample,), allow_unused_input=True)
        self.optimizer = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9)

    def normalise_prototypes(self) -> None:
        weight = self.plain.prototypes.weight
        weight.data = F.normalize(weight.data, dim=-1)

    @torch.no_grad()
    def update_teacher(self) -> None:
        for slow, fast in zip(self.teacher.parameters(), self.plain.parameters()):
            slow.lerp_(fast, 0.02)
        spread = torch.cat(self.recent[-4:]).std(0)
        self.centre.mul_(0.9).add_(self.teacher_mean / (1.0 + spread), alpha=0.1)

    def step(self, views: torch.Tensor) -> torch.Tensor:
        first, second = views.unbind(0)
        logits = self.student(first)
        with torch.no_grad():
            raw = self.teacher(second)
            target = ((raw - self.centre) / 0.05).softmax(-1)
            self.teacher_mean = raw.mean(0)
        loss = -(target * F.log_softmax(logits / 0.1, dim=-1)).sum(-1).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.normalise_prototypes()
        self.recent.append(logits.detach())
        del self.recent[:-4]
        self.update_teacher()
        return loss.detach()


def main() -> None:
    random.seed(4)
    torch.manual_seed(4)
    device = torch.device("cuda")
    batch, length = 32, 64
    distiller = Distiller(Student(length).to(device).train(), batch, length, device)
    uploader = Uploader((2, batch, length), device)
    losses = torch.zeros(60, device=device)
    for step, host_batch in zip(range(60), Signals(batch, length, seed=1)):
        losses[step : step + 1].copy_(distiller.step(uploader.send(host_batch)).view(1))
    print("mean loss", [round(v, 5) for v in losses.view(4, -1).mean(1).tolist()])
    print("centre", round(distiller.centre.norm().item(), 6))


if __name__ == "__main__":
    main()
