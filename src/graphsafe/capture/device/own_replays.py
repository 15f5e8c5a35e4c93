"""Watches replays of graphs that the user's own code has captured; the same on both devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from graphsafe.capture.shared.frames import user_frames
from graphsafe.report.model import CallSite


@contextmanager
def replays_watched(graph: Any, sink: Callable[[tuple[CallSite, ...]], None]) -> Iterator[None]:
    """Report each replay. `graph` is the class of graphs; all code built on it calls its `replay`."""
    replay = graph.replay

    def watched(self: Any) -> Any:
        frames, _ = user_frames()
        sink(frames)
        return replay(self)

    graph.replay = watched
    try:
        yield
    finally:
        graph.replay = replay
