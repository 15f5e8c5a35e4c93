"""Builds the target without its own CUDA graphs: `torch.compile` and `make_graphed_callables` are replaced and return
their argument. Both promise the same results as their argument.

Finds functions that the target has marked: as running eagerly between graphs, or as separate graphs.
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


graphed: list[Any] = []
"Callables that the target gave to `make_graphed_callables` or `torch.compile` since the block of `left_out` began."


def left_out() -> AbstractContextManager[None]:
    """Build the target inside this block without its graphs. The functions' own code is changed, because the target's
    module may already have imported them by name."""
    graphed.clear()
    return replaced((torch.cuda.make_graphed_callables, "__code__", _as_they_are.__code__))


def run_uncompiled() -> None:
    """Make compiled functions run uncompiled from now on."""
    if "torch._dynamo" in sys.modules:
        torch.compiler.set_stance("force_eager")


def _as_they_are(
    callables: Any, sample_args: Any, num_warmup_iters: int = 3, allow_unused_input: bool = False, pool: Any = None
) -> Any:
    from graphsafe.capture.child.own_graphs import plain

    plain.graphed.extend(callables if isinstance(callables, tuple) else (callables,))
    return callables
