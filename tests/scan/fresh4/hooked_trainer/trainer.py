from __future__ import annotations

import torch
from torch import nn

from .callbacks import Callback


class Trainer:
    def __init__(self, net: nn.Module, callbacks: list[Callback], lr: float = 1e-3):
        self.net = net
        self.opt = torch.optim.Adam(net.parameters(), lr=lr)
        self.callbacks = callbacks
        self.emit("on_fit")

    def emit(self, event: str, *args) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(self, *args)

    def __call__(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        self.opt.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(self.net(x), target)
        self.emit("on_loss", loss.detach())
        loss.backward()
        self.emit("before_update")
        self.opt.step()
        return loss.detach()
