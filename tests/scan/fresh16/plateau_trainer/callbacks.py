"""What can be hung into the trainer."""

from __future__ import annotations

import copy


class Cosine:
    """A schedule with restarts."""

    def __init__(self, high: float, period: int):
        self.high, self.period = high, period

    def __call__(self, trainer, number: int) -> None:
        rest = 1 - (number % self.period) / self.period
        for group in trainer.opt.param_groups:
            group["lr"] = self.high * rest


class Restart:
    """Forgets what the optimizer has gathered, at the start of each period."""

    def __init__(self, period: int):
        self.period = period
        self.fresh = None

    def __call__(self, trainer, number: int) -> None:
        if number == 0:
            self.fresh = copy.deepcopy(trainer.opt.state_dict())
        elif number % self.period == 0:
            trainer.opt.load_state_dict(self.fresh)


class HeadOnly:
    """Trains only the head from some step on."""

    def __init__(self, start: int):
        self.start = start

    def __call__(self, trainer, number: int) -> None:
        if number == self.start:
            trainer.model.body.requires_grad_(False)


class Printer:
    def __init__(self, every: int):
        self.every = every

    def __call__(self, trainer, number: int) -> None:
        if number % self.every == 0:
            print(f"step {number}: loss {trainer.loss:.3f}")
