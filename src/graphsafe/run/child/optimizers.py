"""Finds the values that the captured step of an optimizer froze, and optimizer state that was created in the capture.
Also finds gradients that a graph writes but that no optimizer reads.

A schedule writes a new learning rate into `optimizer.param_groups`, but replays do not read the rate there, unless it
is a tensor. If the program freezes or thaws a weight after the capture, replays still treat the weight as the capture
did. Steps are recorded only while a capture runs, so that eager steps cost nothing.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from graphsafe.capture.shared.frames import user_frames
from graphsafe.run.child.names import Name, storage_numbers
from graphsafe.run.facts import Calls, Changed, MadeState


@dataclass(frozen=True, slots=True)
class OptimizerOption:
    """A number in a parameter group of an optimizer whose step was captured."""

    optimizer: weakref.ref[torch.optim.Optimizer]
    group: int
    name: str
    value: Any
    frames: Calls
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


class TrainedWeights:
    """The weights that the captured step of an optimizer trains, because they required a gradient.

    Captured code may set `requires_grad` itself, which a replay does not repeat. So a change is reported only if, at an
    earlier replay, the weights were still as in the captured step.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, frames: Calls) -> None:
        self._frames = frames
        self._weights = [
            (f"{type(optimizer).__name__}.param_groups[{number}]['params'][{at}]", weakref.ref(one), one.requires_grad)
            for number, group in enumerate(optimizer.param_groups)
            for at, one in enumerate(group["params"])
        ]
        self._was_same = False

    def changed(self) -> Changed | None:
        """Return the first weight that is frozen or thawed now, or None."""
        for name, reference, before in self._weights:
            weight = reference()
            if weight is not None and weight.requires_grad is not before:
                at = self._frames[-1] if self._frames else None
                return Changed(f"{name}.requires_grad", str(before), str(not before), at) if self._was_same else None
        self._was_same = True
        return None


@dataclass(frozen=True, slots=True)
class _Step:
    """The first step of an optimizer in a capture."""

    optimizer: torch.optim.Optimizer
    frames: Calls
    weights: TrainedWeights
    state: int
    "The number of tensors in the optimizer's state before the step."


class SteppedOptimizers:
    """Records the optimizers that are stepped during a capture, with the calls that led to the step.

    It records from its creation until `end` is called.
    """

    def __init__(self) -> None:
        self._steps: dict[int, _Step] = {}
        self._thread = threading.get_ident()
        self._end = register_optimizer_step_pre_hook(self._stepping).remove

    def _stepping(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if threading.get_ident() == self._thread and id(optimizer) not in self._steps:
            frames = user_frames()[0]
            weights = TrainedWeights(optimizer, frames)
            self._steps[id(optimizer)] = _Step(optimizer, frames, weights, len(state_of(optimizer)))

    def end(self) -> tuple[list[Callable[[], Changed | None]], MadeState | None]:
        """Stop recording. Return functions that check the values that steps froze. Each function returns a value that
        is different now, or None. Also return the state that a step made in the capture. If several steps made state,
        only the first one counts."""
        self._end()
        steps = list(self._steps.values())
        self._steps.clear()
        frozen = [step.weights.changed for step in steps]
        frozen += [option.changed for step in steps for option in _options(step.optimizer, step.frames)]
        made = None
        for step in steps:
            tensors = len(state_of(step.optimizer)) - step.state
            if made is None and tensors > 0:
                made = MadeState(type(step.optimizer).__name__, tensors, step.frames)
        return frozen, made


def _options(optimizer: torch.optim.Optimizer, frames: Calls) -> Iterator[OptimizerOption]:
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


class Gradients:
    """The gradients among a graph's results, weakly referenced. The program may drop them between replays.

    `optimizer.zero_grad()` sets each `weight.grad` to None. Suppose that a graph contains the backward pass, but
    neither `zero_grad` nor the optimizer's step. Its replays then write to the gradient tensors of the capture. The
    optimizer's eager step then finds no gradients and does nothing.
    """

    def __init__(self, names: Iterable[Name] = ()) -> None:
        """Keep the gradients that are among the graph's results. `names` are the names of these results."""
        own = [name for name in names if name.way[-1:] == (("attribute", "grad"),)]
        self._weights = [weakref.ref(weight) for name in own if (weight := name.owner()) is not None]
        self._watched = [weakref.ref(grad, self._gone) for name in own if (grad := name.tensor()) is not None]
        self._replays = 0
        self.let_go: Calls = ()
        "The calls that led to the line that dropped the first gradient."
        self.skipped = 0
        "The number of weights that had no gradient at an eager step after a replay."

    def _gone(self, _: Any) -> None:
        if not sys.is_finalizing():
            with suppress(Exception):
                self.let_go = self.let_go or user_frames()[0]

    def stepping(self, optimizer: torch.optim.Optimizer, replays: int) -> bool:
        """Return whether this eager step is the first that finds no gradient after a replay.

        `replays` is the number of replays so far.
        """
        before, self._replays = self._replays, replays
        if self.skipped or not self.let_go or replays <= before:
            return False
        own = {id(weight) for reference in self._weights if (weight := reference()) is not None}
        given = [one for group in optimizer.param_groups for one in group["params"] if id(one) in own]
        if all(one.grad is None for one in given):
            self.skipped = len(given)
        return bool(self.skipped)
