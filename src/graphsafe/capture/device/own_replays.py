"""Watches replays of graphs that the user's own code has captured; the same on both devices."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from graphsafe.capture.shared.frames import user_frames
from graphsafe.capture.shared.replaced import replaced
from graphsafe.report.model import CallSite


def replays_watched(graph: Any, sink: Callable[[tuple[CallSite, ...]], None]) -> AbstractContextManager[None]:
    """Report each replay. `graph` is the class of graphs; all code built on it calls its `replay`."""
    replay = graph.replay

    def watched(self: Any) -> Any:
        frames, _ = user_frames()
        sink(frames)
        return replay(self)

    return replaced((graph, "replay", watched))
