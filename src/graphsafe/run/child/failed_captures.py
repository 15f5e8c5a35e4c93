"""Records the captures that failed: those that raised an error, and those that began and never ended.

To find the handler that swallows the error, an object is attached to the exception. When the handler ends, Python
destroys both, and the stack at that moment shows the handler. Neither the exception nor a frame is kept alive.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

from graphsafe.capture.shared.frames import (
    absolute,
    error_frames,
    frames_from,
    function_name,
    is_user_file,
    message_of,
    root_error,
    user_frames,
)
from graphsafe.report.model import CallSite
from graphsafe.run.child.records import GraphRecord
from graphsafe.run.child.sight import Sight
from graphsafe.run.child.source import called_name, holding, innermost
from graphsafe.run.facts import FailedCapture, Stage

_BROAD = ("Exception", "BaseException", "RuntimeError", "AcceleratorError")
"Handlers of these exceptions catch the errors of the device."
_NO_END = "capture_begin() was not followed by capture_end()"


class FailedCaptures:
    def __init__(self, sight: Sight, tell: Callable[[bool], None]) -> None:
        self._sight = sight
        self._tell = tell
        self.records: list[FailedCapture] = []
        self._open: dict[int, tuple[GraphRecord, weakref.ref[Any]]] = {}
        "Number of a capture -> its record and its graph, from the beginning of the capture to its end."

    def begun(self, graph: Any, record: GraphRecord) -> None:
        """Expect the end of a capture. If its graph is destroyed before the end, the capture has failed."""
        self._open[record.number] = record, weakref.ref(graph, lambda _: self._abandoned(record.number))

    def ended(self, record: GraphRecord) -> None:
        self._open.pop(record.number, None)

    def look(self) -> None:
        """Record, at the end of the program, the captures that have not ended, except those of running threads."""
        is_ending = sys.exc_info()[1] is not None or getattr(sys, "last_value", None) is not None
        running = {one.name for one in threading.enumerate() if one is not threading.current_thread()}
        for record, _ in list(self._open.values()):
            if record.thread not in running:
                self._abandoned(record.number, is_ending)

    def forget(self) -> None:
        self.records = []
        self._open.clear()

    def add(self, graph: Any, record: GraphRecord | None, error: BaseException, frame: FrameType, stage: Stage) -> None:
        """Record a capture that raised an error. `graph` and `record` are None if the error was raised before the
        capture began."""
        root = error if record is None else root_error(error, record.handled)[0]
        frames, span = (record.frames, record.span) if record is not None else user_frames()
        failure = FailedCapture(
            frames,
            span,
            self._sight.device(),
            error=message_of(root),
            inner=error_frames(error, root),
            generator=self._sight.draw(),
            guilty=None if graph is None else self._sight.guilty(graph, root),
            stage=stage,
        )
        self.records.append(failure)

        def tell(handler: CallSite) -> None:
            swallowed = replace(failure, swallowed_by=handler)
            self.records = [swallowed if one is failure else one for one in self.records]
            self._tell(False)

        with contextlib.suppress(AttributeError, TypeError):  # some exceptions allow no new attributes
            error._graphsafe_witness = _Witness(frame, tell)  # type: ignore[attr-defined]
        self._tell(False)

    def _abandoned(self, number: int, is_ending: bool = False) -> None:
        """Record a capture that never ended: an exception kept the program from calling `capture_end`.

        `is_ending` says whether an exception ends the program. In this case, no handler can have swallowed it.
        """
        record, _ = self._open.pop(number, (None, None))
        if record is None:
            return
        if record.stepped is not None:
            record.stepped.end()
        broken = self._sight.abandoned()
        self.records.append(
            FailedCapture(
                record.frames,
                record.span,
                record.device,
                error=_NO_END,
                inner=() if broken is None else broken.frames,
                generator=None,
                guilty=broken,
                stage="open",
                swallowed_by=None if is_ending else _handler_around(record.frames),
            )
        )
        self._tell(False)


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


def is_watched(error: BaseException) -> bool:
    return hasattr(error, "_graphsafe_witness")


def _handler(before: list[tuple[int, int]], frame: FrameType) -> CallSite | None:
    """Return the handler that is running in the innermost frame that the exception did not end, or None. The handler is
    the innermost `except` clause or `with suppress(...)` around the running line."""
    pairs = zip(list(frames_from(frame))[::-1], before, strict=False)
    common = itertools.takewhile(lambda pair: (id(pair[0]), id(pair[0].f_code)) == pair[1], pairs)
    users = [one for one, _ in common if is_user_file(one.f_code.co_filename)]
    if not users:
        return None
    path = absolute(users[-1].f_code.co_filename)
    handler = innermost(path, users[-1].f_lineno, ast.ExceptHandler, ast.With)
    if handler is None or (isinstance(handler, ast.With) and not _suppresses(handler)):
        return None
    return CallSite(path, handler.lineno, function_name(users[-1].f_code))


def _handler_around(frames: Sequence[CallSite]) -> CallSite | None:
    """Return the innermost handler that catches the device's errors and does not raise again. A `try` block counts only
    if it contains one of these calls and at least one further statement after it."""
    for one in reversed(frames):
        for node in reversed(holding(one.path, one.line)):
            if isinstance(node, ast.With) and _suppresses(node):
                return CallSite(one.path, node.lineno, one.function)
            if isinstance(node, ast.Try) and node.body[0].lineno <= one.line < node.body[-1].lineno:
                handler = next(filter(_is_broad, node.handlers), None)
                if handler is not None and not any(isinstance(each, ast.Raise) for each in ast.walk(handler)):
                    return CallSite(one.path, handler.lineno, one.function)
    return None


def _is_broad(handler: ast.ExceptHandler) -> bool:
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(one is None or called_name(one) in _BROAD for one in caught)


def _suppresses(block: ast.With) -> bool:
    return any("suppress" in ast.unparse(item) for item in block.items)
