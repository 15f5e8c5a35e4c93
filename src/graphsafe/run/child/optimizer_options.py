"""Finds numbers of an optimizer, such as its learning rate, that a captured step froze and that the program changed
later.

A schedule writes the new number into `optimizer.param_groups`, but replays do not read it there. If the learning rate
is a tensor, every replay reads it. Steps are recorded only while a capture runs, so that eager steps cost nothing.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from graphsafe.capture.shared.frames import user_frames
from graphsafe.report.model import CallSite
from graphsafe.run.child.names import storage_numbers
from graphsafe.run.facts import Changed


@dataclass(frozen=True, slots=True)
class OptimizerOption:
    """A number in a parameter group of an optimizer whose step was captured."""

    optimizer: weakref.ref[torch.optim.Optimizer]
    group: int
    name: str
    value: Any
    frames: tuple[CallSite, ...]
    "The calls that led to the captured step."

    def changed(self) -> Changed | None:
        """Return the option with its value at the capture and its present value, or None if they are equal."""
        optimizer = self.optimizer()
        groups = [] if optimizer is None else optimizer.param_groups
        now = groups[self.group].get(self.name) if self.group < len(groups) else self.value
        if type(now) is not type(self.value) or now == self.value:
            return None
        name = f"{type(optimizer).__name__}.param_groups[{self.group}]['{self.name}']"
        return Changed(name, repr(self.value), repr(now), self.frames[-1] if self.frames else None)


class SteppedOptimizers:
    """Records the optimizers that are stepped during a capture, with the calls that led to the step.

    It records from its creation until `end` is called.
    """

    def __init__(self) -> None:
        self._stepped: dict[int, tuple[torch.optim.Optimizer, tuple[CallSite, ...]]] = {}
        self._thread = threading.get_ident()
        self._end = register_optimizer_step_pre_hook(self._stepping).remove

    def _stepping(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if threading.get_ident() == self._thread:
            self._stepped.setdefault(id(optimizer), (optimizer, user_frames()[0]))

    def end(self) -> list[OptimizerOption]:
        """Stop recording, and return the options of the optimizers that were stepped."""
        self._end()
        stepped = list(self._stepped.values())
        self._stepped.clear()
        return [option for optimizer, frames in stepped for option in _options(optimizer, frames)]


def _options(optimizer: torch.optim.Optimizer, frames: tuple[CallSite, ...]) -> Iterator[OptimizerOption]:
    for number, group in enumerate(optimizer.param_groups):
        for name, value in group.items():
            if type(value) is float or (type(value) is tuple and all(type(one) is float for one in value)):
                yield OptimizerOption(weakref.ref(optimizer), number, name, value, frames)


def state_of(optimizer: torch.optim.Optimizer) -> Collection[int]:
    """Return the numbers of the storages of an optimizer's state."""
    with suppress(Exception), torch._C.DisableTorchFunction():  # an invalid state raises the program's own error later
        states = [one for each in optimizer.state.values() for one in each.values()]
        return storage_numbers(one for one in states if isinstance(one, torch.Tensor))
    return ()
