"""Things that watch or steer training. Every method is optional."""
from __future__ import annotations

import torch
from torch import nn


class Callback:
    def on_fit(self, trainer) -> None: ...

    def on_loss(self, trainer, loss: torch.Tensor) -> None: ...

    def before_update(self, trainer) -> None: ...


class LossMeter(Callback):
    def __init__(self, smooth: float = 0.98):
        self.smooth = smooth
        self.value = 0.0

    def on_loss(self, trainer, loss):
        self.value = self.smooth * self.value + (1 - self.smooth) * loss.item()


class Spy(Callback):
    """Remembers a line about the output of every linear layer."""

    def __init__(self):
        self.lines: dict[str, str] = {}

    def on_fit(self, trainer):
        for name, module in trainer.net.named_modules():
            if isinstance(module, nn.Linear):
                module.register_forward_hook(self._watch(name))

    def _watch(self, name: str):
        def hook(module, args, out):
            self.lines[name] = f"{name}: {out.detach().abs().amax():.3f}"
        return hook


class Warmup(Callback):
    def __init__(self, steps: int):
        self.steps = steps
        self.done = 0

    def on_fit(self, trainer):
        self.base = [group["lr"] for group in trainer.opt.param_groups]

    def before_update(self, trainer):
        self.done += 1
        scale = min(1.0, self.done / self.steps)
        for base, group in zip(self.base, trainer.opt.param_groups):
            group["lr"] = base * scale
