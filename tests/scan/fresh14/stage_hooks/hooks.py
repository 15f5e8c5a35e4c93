"""Hooks: stages of training, the time of a step, and the history of the loss."""

import time

import torch
from trainer import Hook


class Freeze(Hook):
    """Trains only the head from a given step on."""

    def __init__(self, at):
        self.at = at

    def before_step(self, trainer):
        if trainer.number == self.at:
            trainer.model.body.requires_grad_(False)


class DropoutSchedule(Hook):
    def __init__(self, start, steps):
        self.start = start
        self.steps = steps

    def before_step(self, trainer):
        share = min(1.0, trainer.number / self.steps)
        trainer.model.drop.p = self.start * (1 - share)


class StepTime(Hook):
    def __init__(self):
        self.seconds = []

    def before_step(self, trainer):
        self.begun = time.perf_counter()

    def after_step(self, trainer):
        torch.cuda.synchronize()
        self.seconds.append(time.perf_counter() - self.begun)


class History(Hook):
    def __init__(self, steps):
        self.losses = torch.zeros(steps, device="cuda")

    def after_step(self, trainer):
        self.losses[trainer.number - 1].copy_(trainer.loss)
