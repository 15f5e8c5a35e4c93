"""Finds functions that the target has marked: as running eagerly between graphs, or as separate graphs."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from graphsafe.capture.shared.frames import absolute, function_name
from graphsafe.report.model import CallSite

_PACKAGE = "breakable_cuda_graphs"


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A marked function."""

    path: str
    line: int
    "The first line of the function, decorators included."
    last: int
    function: str | None

    def holds(self, frames: Iterable[CallSite]) -> bool:
        """Return whether these frames pass through the marked function."""
        return any(
            (frame.path, frame.function) == (self.path, self.function) and self.line <= frame.line <= self.last
            for frame in frames
        )


def mark_of(function: Any) -> Mark | None:
    """Return the mark of a function or of a module's `forward`; None if it has no Python code."""
    owner = getattr(function, "forward", function)
    code = getattr(getattr(owner, "__func__", owner), "__code__", None)
    if not isinstance(code, CodeType):
        return None
    last = max([code.co_firstlineno, *(line for *_, line in code.co_lines() if line is not None)])
    return Mark(absolute(code.co_filename), code.co_firstlineno, last, function_name(code))


def eager_marks() -> tuple[Mark, ...]:
    """Return functions marked with `no_graph` of breakable-cuda-graphs, if the target has imported it."""
    package = sys.modules.get(_PACKAGE)
    if package is None or package.__file__ is None:
        return ()
    # Objects that were imported before this process was forked are frozen, and frozen objects are not listed
    gc.unfreeze()
    wrappers = [
        found
        for found in gc.get_objects()
        if type(found) is FunctionType
        and found.__code__.co_filename == package.__file__
        and found.__module__ != _PACKAGE
        and hasattr(found, "__wrapped__")
    ]
    marks = [mark_of(wrapper.__wrapped__) for wrapper in wrappers]
    return tuple(sorted({mark for mark in marks if mark is not None}))
