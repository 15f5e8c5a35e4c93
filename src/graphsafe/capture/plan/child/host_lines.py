"""Finds the user's lines that change host state kept by a library: looks at the state after every line."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from graphsafe.capture.child.state import reach_of
from graphsafe.capture.shared.frames import is_user_file, user_frames

if TYPE_CHECKING:
    from graphsafe.capture.child.session import Session
    from graphsafe.report.model import CallSite


def lines_that_change(session: Session, paths: Sequence[str]) -> Mapping[str, tuple[CallSite, ...]]:
    """Run one step; return, for each path, the user's frames that ran when its value changed."""
    reach = reach_of(session.subject)
    held = {path: reach.owners[path] for path in paths if path in reach.owners}
    watch = _Lines(held)
    previous = sys.gettrace()
    sys.settrace(watch.call)
    try:
        session.step()
    finally:
        sys.settrace(previous)
    return watch.found


class _Lines:
    def __init__(self, held: Mapping[str, tuple[Any, Any]]) -> None:
        self._held = held
        self._values = {path: _value(*place) for path, place in held.items()}
        self._running: tuple[CallSite, ...] = ()
        self.found: dict[str, tuple[CallSite, ...]] = {}

    def call(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self.line if is_user_file(frame.f_code.co_filename) else None

    def line(self, frame: FrameType, event: str, argument: Any) -> Any:
        for path, place in self._held.items():
            value = _value(*place)
            if value != self._values[path]:
                self._values[path] = value
                self.found.setdefault(path, self._running)
        self._running, _ = user_frames(frame)
        return self.line


def _value(container: Any, key: Any) -> Any:
    try:
        value = container[key] if isinstance(container, (dict, list, tuple)) else None
    except (KeyError, IndexError):
        return None
    return value if isinstance(value, (bool, int, float, str)) else None
