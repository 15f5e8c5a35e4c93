"""Watches a graph's outputs: whether the program keeps earlier results, which every replay overwrites."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Any

import torch

from graphsafe.capture.shared.frames import user_frames
from graphsafe.report.model import CallSite
from graphsafe.run.child.names import storage_numbers, user_frames_now
from graphsafe.run.child.results.keeping import keeping_line
from graphsafe.run.part import sites

_MOST = 8
"The largest number of a graph's outputs that are watched."
_ENOUGH = 3
"""Results count as collected if this many replays after the first each add a holder.

A variable for the last result, and one for the result before, are fewer.
"""


@dataclass(frozen=True, slots=True)
class Overwritten:
    """A read of a result after another graph, or a later replay of the same graph, has overwritten it."""

    read: CallSite
    replay: tuple[CallSite, ...]
    "The calls of the replay that overwrote the result."
    by: int
    "The number of the graph that was replayed."
    later: CallSite | None = None
    "The read, if `read` is the replay of another graph that fills the same buffer."
    kept: str = ""
    "The variable that then keeps the result."


class Outputs:
    def __init__(self, tensors: Sequence[torch.Tensor] = ()) -> None:
        self._tensors = [weakref.ref(tensor) for tensor in tensors[:_MOST]]
        self._before: int | None = None
        self._held = 0
        self._grown = 0
        self.collected: tuple[CallSite, ...] = ()
        "The statement that keeps results, or the replay that overwrote kept results."
        self.compared: tuple[CallSite, ...] = ()
        "The place where a result was compared with an earlier one, which is the same memory."

        self.overwritten: Overwritten | None = None
        "The first read of a result after another replay has overwritten it."

    def look(self) -> bool:
        """Count the holders of the outputs, before a replay; return whether this is the first collection to report.
        Call it with torch functions disabled."""
        if self.collected or not self._tensors:
            return False
        held = self.holders()
        if self._before is None:
            self._before = self._held = held
        elif held > self._held:
            self._held = held
            self._grown += 1
        elif held < self._held:
            self._held, self._grown = held, 0
        if self._grown < _ENOUGH or held < self._before + _ENOUGH:
            return False
        self.collected = self._kept_at(user_frames_now(sys._getframe(1)))
        return True

    def is_held_by_more(self) -> bool:
        """Return whether more variables or attributes hold the outputs than at the first look."""
        return self._before is not None and self.holders() > self._before

    def _kept_at(self, frames: Sequence[FrameType]) -> tuple[CallSite, ...]:
        tensors = (tensor for reference in self._tensors if (tensor := reference()) is not None)
        line = keeping_line(storage_numbers(tensors), frames)
        return user_frames()[0] if line is None else (line,)

    def holders(self) -> int:
        """Return the number of Python references to the tensors, and of tensors that share their memory."""
        found = 0
        for reference in self._tensors:
            tensor = reference()
            if tensor is not None:
                found += sys.getrefcount(tensor) + _sharers(tensor)
        return found

    def facts(self) -> dict[str, Any]:
        return {
            "collected": sites(self.collected),
            "compared": sites(self.compared),
            "overwritten": None if self.overwritten is None else asdict(self.overwritten),
        }


def _sharers(tensor: torch.Tensor) -> int:
    count: Any = getattr(torch._C, "_storage_Use_Count", None)
    return 0 if count is None else int(count(tensor.untyped_storage()._cdata))
