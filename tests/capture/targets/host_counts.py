"""Steps that count in tensors on the host. Replays leave such a count as it is; only some steps decide by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Built = tuple[Callable[..., Any], tuple[Any, ...]]


class Trained:
    """Adagrad counts its steps on the host; only a decay of the learning rate depends on the count."""

    def __init__(self, device: str, decay: float) -> None:
        self.net = nn.Linear(6, 2).to(device)
        self.opt = torch.optim.Adagrad(self.net.parameters(), lr=0.1, lr_decay=decay)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.opt.zero_grad(set_to_none=True)
        loss = F.mse_loss(self.net(x), x[:, :2])
        loss.backward()
        self.opt.step()
        return loss.detach()


def build_adagrad(device: str) -> Built:
    return Trained(device, 0.0), (torch.randn(8, 6, device=device),)


def build_adagrad_decay(device: str) -> Built:
    return Trained(device, 0.1), (torch.randn(8, 6, device=device),)


class Counting:
    def __init__(self, use: Callable[[torch.Tensor, torch.Tensor], Any]) -> None:
        self.count = torch.zeros(3)
        self.use = use

    def __call__(self, x: torch.Tensor) -> Any:
        self.count += 1
        return self.use(x, self.count)


def counting(use: Callable[[torch.Tensor, torch.Tensor], Any]) -> Callable[[str], Built]:
    return lambda device: (Counting(use), (torch.randn(8, 3, device=device),))


build_unread = counting(lambda x, count: x * 2)
build_late = counting(lambda x, count: x * (count[0] >= 70))
build_branch = counting(lambda x, count: x * 2 if int(count[0]) % 64 else x * 3)
build_shown = counting(lambda x, count: (x * 2, count))
