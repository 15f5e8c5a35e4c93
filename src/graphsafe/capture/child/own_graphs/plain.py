"""Builds the target without its own CUDA graphs, and finds the functions that the target has marked.

`make_graphed_callables` is replaced by a function that returns its argument, and compiled functions run uncompiled.
Neither replacement may change the results of a function. A mark says that a function runs eagerly between graphs, or as
a graph of its own.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

import torch

from graphsafe.capture.shared.frames import absolute, function_name
from graphsafe.capture.shared.replaced import replaced
from graphsafe.report.model import CallSite

_PACKAGE = "breakable_cuda_graphs"


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A marked function."""

    path: str
    line: int
    "The first line of the function, including its decorators."
    last: int
    function: str | None

    def holds(self, frames: Iterable[CallSite]) -> bool:
        return any(
            (frame.path, frame.function) == (self.path, self.function) and self.line <= frame.line <= self.last
            for frame in frames
        )


def mark_of(function: Any) -> Mark | None:
    """Return the mark of a function, or of a module's `forward`. Return None if the function is not written in
    Python."""
    owner = getattr(function, "forward", function)
    code = getattr(getattr(owner, "__func__", owner), "__code__", None)
    if not isinstance(code, CodeType):
        return None
    last = max([code.co_firstlineno, *(line for *_, line in code.co_lines() if line is not None)])
    return Mark(absolute(code.co_filename), code.co_firstlineno, last, function_name(code))


def eager_marks() -> tuple[Mark, ...]:
    """Return the functions that the target marks with `no_graph` of breakable-cuda-graphs. The result is empty if the
    target has not imported that package."""
    package = sys.modules.get(_PACKAGE)
    if package is None or package.__file__ is None:
        return ()
    # `gc.get_objects` does not list frozen objects. The objects that were imported before the fork are frozen.
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


graphed: list[Any] = []
"Callables that the target has passed to `make_graphed_callables` since the block of `without_own_graphs` began."


def without_own_graphs() -> AbstractContextManager[None]:
    """Build the target without its graphs in this block. The code of `make_graphed_callables` itself is replaced,
    because the target's module may already have imported this function by name."""
    graphed.clear()
    return replaced((torch.cuda.make_graphed_callables, "__code__", _as_they_are.__code__))


def run_uncompiled() -> None:
    if "torch._dynamo" in sys.modules:
        torch.compiler.set_stance("force_eager")


def _as_they_are(
    callables: Any, sample_args: Any, num_warmup_iters: int = 3, allow_unused_input: bool = False, pool: Any = None
) -> Any:
    from graphsafe.capture.child.own_graphs import plain

    plain.graphed.extend(callables if isinstance(callables, tuple) else (callables,))
    return callables
