"""Records the captures that failed: those that raised an error, and those that began and never ended."""

from __future__ import annotations

import ast
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from graphsafe.capture.shared.frames import error_frames, message_of, root_error, user_frames
from graphsafe.report.model import CallSite
from graphsafe.run.child.failures.handlers import suppresses, swallowing_watched
from graphsafe.run.child.records import GraphRecord
from graphsafe.run.child.sight import Sight
from graphsafe.run.child.source import called_name, holding
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
            failure.swallowed_by = handler
            self._tell(False)

        swallowing_watched(error, frame, tell)
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


def _handler_around(frames: Sequence[CallSite]) -> CallSite | None:
    """Return the innermost handler that catches the device's errors and does not raise again. A `try` block counts only
    if it contains one of these calls and at least one further statement after it."""
    for one in reversed(frames):
        for node in reversed(holding(one.path, one.line)):
            if isinstance(node, ast.With) and suppresses(node):
                return CallSite(one.path, node.lineno, one.function)
            if isinstance(node, ast.Try) and node.body[0].lineno <= one.line < node.body[-1].lineno:
                handler = next(filter(_is_broad, node.handlers), None)
                if handler is not None and not any(isinstance(each, ast.Raise) for each in ast.walk(handler)):
                    return CallSite(one.path, handler.lineno, one.function)
    return None


def _is_broad(handler: ast.ExceptHandler) -> bool:
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(one is None or called_name(one) in _BROAD for one in caught)
