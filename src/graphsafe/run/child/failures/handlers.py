"""Finds the handler that swallows the exception of a failed capture.

An object is attached to the exception. When the handler ends, Python destroys both, and the stack at that moment shows
the handler. Neither the exception nor a frame is kept alive.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import sys
from collections.abc import Callable
from types import FrameType

from graphsafe.capture.shared.frames import absolute, frames_from, function_name, is_user_file
from graphsafe.report.model import CallSite
from graphsafe.run.child.source import innermost


class _Witness:
    """Calls `tell` on destruction, with the line of the handler that swallowed the exception."""

    def __init__(self, frame: FrameType | None, tell: Callable[[CallSite], None]) -> None:
        self._stack = [(id(one), id(one.f_code)) for one in frames_from(frame)][::-1]
        "The ids of each frame and of its code, outermost first."
        self._tell = tell

    def __del__(self) -> None:
        if sys.is_finalizing():
            return
        with contextlib.suppress(Exception):
            handler = _handler(self._stack, sys._getframe(1))
            if handler is not None:
                self._tell(handler)


def swallowing_watched(error: BaseException, frame: FrameType | None, tell: Callable[[CallSite], None]) -> None:
    """Call `tell` if a handler in `frame` or in one of its callers swallows `error`."""
    with contextlib.suppress(AttributeError, TypeError):  # some exceptions allow no new attributes
        error._graphsafe_witness = _Witness(frame, tell)  # type: ignore[attr-defined]


def is_watched(error: BaseException) -> bool:
    return hasattr(error, "_graphsafe_witness")


def _handler(before: list[tuple[int, int]], frame: FrameType) -> CallSite | None:
    """Return the handler that is running in the innermost frame which the exception has left alive, or None."""
    pairs = zip(list(frames_from(frame))[::-1], before, strict=False)
    common = itertools.takewhile(lambda pair: (id(pair[0]), id(pair[0].f_code)) == pair[1], pairs)
    users = [one for one, _ in common if is_user_file(one.f_code.co_filename)]
    if not users:
        return None
    path, line = absolute(users[-1].f_code.co_filename), users[-1].f_lineno
    handler = _handler_lines(path, line)
    return None if handler is None else CallSite(path, handler, function_name(users[-1].f_code))


def _handler_lines(path: str, line: int) -> int | None:
    """Return the first line of the innermost `except` clause or `with suppress(...)` that contains `line`."""
    inner = innermost(path, line, ast.ExceptHandler, ast.With)
    if isinstance(inner, ast.With) and not suppresses(inner):
        return None
    return None if inner is None else inner.lineno


def suppresses(block: ast.With) -> bool:
    return any("suppress" in ast.unparse(item) for item in block.items)
