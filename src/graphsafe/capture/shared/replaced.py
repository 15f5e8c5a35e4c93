"""Replaces attributes of modules, classes and objects for some time. In this way, replays of graphs that the user's own
code has captured are watched too."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType, ModuleType
from typing import Any

from graphsafe.capture.shared.frames import user_frames
from graphsafe.report.model import CallSite


@contextmanager
def replaced(*changes: tuple[Any, str, Any]) -> Iterator[None]:
    """Give each attribute (owner, name) another value in this block. At the end, the old value is put back. If a class
    or a module did not have the attribute itself, the attribute is deleted from it."""
    before = [(owner, name, _own(owner, name)) for owner, name, _ in changes]
    try:
        for owner, name, value in changes:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(before):
            if value is not _MISSING:
                setattr(owner, name, value)
            elif name in vars(owner):
                delattr(owner, name)


_MISSING = object()


def _own(owner: Any, name: str) -> Any:
    return vars(owner).get(name, _MISSING) if isinstance(owner, (type, ModuleType)) else getattr(owner, name)


@contextmanager
def tracing(call: Callable[[FrameType, str, Any], Any]) -> Iterator[None]:
    """Let Python call this function for each call in this thread, and in threads that are started in this block."""
    before = sys.gettrace()
    sys.settrace(call)
    threading.settrace(call)
    try:
        yield
    finally:
        sys.settrace(before)
        threading.settrace(before)


def replays_watched(graph: Any, sink: Callable[[tuple[CallSite, ...]], None]) -> AbstractContextManager[None]:
    """Call `sink` with the user's frames at each replay. `graph` is the class of graphs; all code that uses graphs
    calls its method `replay`."""
    replay = graph.replay

    def watched(self: Any) -> Any:
        frames, _ = user_frames()
        sink(frames)
        return replay(self)

    return replaced((graph, "replay", watched))
