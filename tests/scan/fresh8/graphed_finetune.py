"""Fine-tunes with graphed trunk; evaluates and reports between rounds."""
from __future__ import annotations

import copy
from typing import Iterator

import torch
import torch.nn.functional as F
from torch import nn


class Trunk(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.a = nn.Linear(width, 2 * width)
        self.b = nn.Linear(2 * width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.b(F.gelu(self.a(x))))


class Feed:
    """Pinned batches, moved ahead of time on their own stream."""

    def __init__(self, size: int, width: int, classes: int, device: torch.device, seed: int):
        self.source = torch.Generator().manual_seed(seed)
        self.size, self.width, self.classes = size, width, classes
        self.device = device
        self.lane = torch.cuda.Stream(device)

    def _host(self):
        x = torch.randn(self.size, self.width, generator=self.source)
        y = torch.randint(0, self.classes, (self.size,), generator=self.source)
        return x.pin_memory(), y.pin_memory()

    def __call__(self, count: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for _ in range(count):
            host = self._host()
            with torch.cuda.stream(self.lane):
                x, y = (t.to(self.device, non_blocking=True) for t in host)
            here = torch.cuda.current_stream(self.device)
            here.wait_stream(self.lane)
            x.record_stream(here)
            y.record_stream(here)
            yield x, y


@torch.no_grad()
def accuracy(trunk: nn.Module, head: nn.Module, feed: Feed, count: int) -> float:
    trunk.eval()
    head.eval()
    right = 0
    for x, y in feed(count):
        right += (head(trunk(x)).argmax(-1) == y).sum().item()
    trunk.train()
    head.train()
    return right / (count * feed.size)


class Averaged:
    def __init__(self, modules: list[nn.Module], decay: float = 0.99):
        self.live = [p for m in modules for p in m.parameters()]
        self.mean = [p.detach().clone() for p in self.live]
        self.decay = decay

    @torch.no_grad()
    def update(self) -> None:
        torch._foreach_lerp_(self.mean, self.live, 1 - self.decay)

    @torch.no_grad()
    def load_into(self, modules: list[nn.Module]) -> None:
        torch._foreach_copy_([p for m in modules for p in m.parameters()], self.mean)


def train(rounds: int = 5, per_round: int = 200, width: int = 64, classes: int = 8) -> float:
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    trunk, head = Trunk(width).to(device), nn.Linear(width, classes).to(device)
    spare = copy.deepcopy(trunk), copy.deepcopy(head)
    feed = Feed(128, width, classes, device, seed=0)
    sample = torch.randn(128, width, device=device)
    trunk = torch.cuda.make_graphed_callables(trunk, (sample,))
    optimizer = torch.optim.SGD([*trunk.parameters(), *head.parameters()], lr=0.05, momentum=0.9)
    averaged = Averaged([trunk, head])
    seen = torch.zeros((), device=device)
    for round_ in range(rounds):
        seen.zero_()
        for x, y in feed(per_round):
            loss = F.cross_entropy(head(trunk(x)), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            averaged.update()
            seen.add_(loss.detach())
        averaged.load_into(list(spare))
        score = accuracy(*spare, Feed(128, width, classes, device, seed=1), 20)
        print(f"round {round_}: loss {seen.item() / per_round:.4f}, accuracy {score:.3f}")
    return score


if __name__ == "__main__":
    train()
