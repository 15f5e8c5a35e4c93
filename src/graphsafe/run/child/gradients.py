"""Finds gradients that a graph writes but that no optimizer reads, because the program drops them between replays.

`optimizer.zero_grad()` sets each `weight.grad` to None. Suppose that a graph contains the backward pass, but neither
`zero_grad` nor the optimizer's step. Its replays then write to the gradient tensors of the capture. The optimizer's
eager step then finds no gradients and does nothing.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import torch

from graphsafe.capture.shared.frames import user_frames
from graphsafe.run.child.names import Name
from graphsafe.run.facts import DroppedGradients


class Gradients:
    """The gradients among a graph's results. They are weakly referenced."""

    def __init__(self, names: Iterable[Name] = ()) -> None:
        """Take the gradients among the names of the graph's results. Call it with torch functions disabled."""
        own = [name for name in names if name.way[-1:] == (("attribute", "grad"),)]
        self._weights = [weakref.ref(weight) for name in own if (weight := name.owner()) is not None]
        self._watched = [weakref.ref(grad, self._gone) for name in own if (grad := name.tensor()) is not None]
        self._replays = 0
        self.dropped = DroppedGradients()

    def __bool__(self) -> bool:
        return bool(self._watched)

    def _gone(self, _: Any) -> None:
        if not sys.is_finalizing():
            with suppress(Exception):
                self.dropped.let_go = self.dropped.let_go or user_frames()[0]

    def stepping(self, optimizer: torch.optim.Optimizer, replays: int) -> bool:
        """Return whether this eager step is the first that finds no gradient after a replay.

        `replays` is the number of replays so far.
        """
        before, self._replays = self._replays, replays
        if self.dropped.skipped or not self.dropped.let_go or replays <= before:
            return False
        own = {id(weight) for reference in self._weights if (weight := reference()) is not None}
        given = [one for group in optimizer.param_groups for one in group["params"] if id(one) in own]
        if all(one.grad is None for one in given):
            self.dropped.skipped = len(given)
        return bool(self.dropped.skipped)
