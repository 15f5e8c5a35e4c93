"""Finds numbers of an optimizer (its learning rate, its decay) that a captured step froze and that changed later.

A schedule writes the new number into `optimizer.param_groups`, from which replays do not read. A learning rate that is
a tensor is read by every replay.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from graphsafe.run.child.keys import Changed
from graphsafe.run.child.names import attributes_of, locals_of, storage_number


@dataclass(frozen=True, slots=True)
class OptimizerOption:
    """A number in a parameter group of an optimizer whose step was captured."""

    optimizer: weakref.ref[torch.optim.Optimizer]
    group: int
    name: str
    value: Any

    def changed(self) -> Changed | None:
        """Return the option's text, its value at capture and its value now; None if the value is the same."""
        optimizer = self.optimizer()
        groups = [] if optimizer is None else optimizer.param_groups
        now = groups[self.group].get(self.name) if self.group < len(groups) else self.value
        if type(now) is not type(self.value) or now == self.value:
            return None
        return f"{type(optimizer).__name__}.param_groups[{self.group}]['{self.name}']", repr(self.value), repr(now)


def captured_options(frames: Sequence[FrameType], storages: Collection[int]) -> list[OptimizerOption]:
    """Return the options of the optimizers in the variables of `frames` whose state a graph uses.

    Attributes of these variables count too. `storages` are the numbers of the storages outside its pool that the graph
    uses. Only a step uses an optimizer's state.
    """
    found = {id(one): one for one in _optimizers(frames)}
    return [option for one in found.values() if _is_stepped(one, storages) for option in _options(one)]


def _optimizers(frames: Iterable[FrameType]) -> Iterator[torch.optim.Optimizer]:
    for frame in frames:
        for value in locals_of(frame).values():
            for one in (value, *attributes_of(value).values()):
                if isinstance(one, torch.optim.Optimizer):
                    yield one


def _is_stepped(optimizer: torch.optim.Optimizer, storages: Collection[int]) -> bool:
    state = [value for each in optimizer.state.values() for value in each.values() if isinstance(value, torch.Tensor)]
    return any(storage_number(tensor) in storages for tensor in state)


def _options(optimizer: torch.optim.Optimizer) -> Iterator[OptimizerOption]:
    for number, group in enumerate(optimizer.param_groups):
        for name, value in group.items():
            if type(value) is float or (type(value) is tuple and all(type(one) is float for one in value)):
                yield OptimizerOption(weakref.ref(optimizer), number, name, value)
