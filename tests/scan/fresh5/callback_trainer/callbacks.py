from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from .trainer import Trainer


class Callback:
    def on_gradients(self, trainer: "Trainer") -> None: ...

    def on_step_end(self, trainer: "Trainer") -> None: ...


class CallbackList(list):
    """Calls any `on_*` hook of all members in order."""

    def __getattr__(self, hook: str):
        if not hook.startswith("on_"):
            raise AttributeError(hook)

        def call(*args):
            for member in self:
                getattr(member, hook)(*args)

        return call


class GradientMean(Callback):
    def __init__(self, world: int):
        self.world = world

    def on_gradients(self, trainer):
        for p in trainer.model.parameters():
            p.grad.div_(self.world)
            dist.all_reduce(p.grad, async_op=True)


class LossReport(Callback):
    def __init__(self, every: int = 10):
        self.every = every
        self.points: list[torch.Tensor] = []

    def on_step_end(self, trainer):
        if trainer.step % self.every == 0 and trainer.is_main:
            value = trainer.loss.detach().clone()
            dist.all_reduce(value, op=dist.ReduceOp.SUM)
            self.points.append(value / trainer.world)
