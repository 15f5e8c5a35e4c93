"""Counts the waits for the device between replays by line, and measures their durations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphsafe.capture.answers.events import StepEvent
from graphsafe.run.facts import WaitFacts

_KINDS = frozenset({"read", "wait", "query", "copy-to-host", "copy-to-device", "extent", "hidden-sync"})


class Waits:
    def __init__(self, replays: Callable[[], int], is_wanted: Callable[[], bool]) -> None:
        """Record no waits yet. `replays` counts the replays of all graphs, and `is_wanted` returns whether waits for
        the current device are recorded."""
        self._replays = replays
        self._is_wanted = is_wanted
        self._found: dict[tuple[Any, ...], list[Any]] = {}

    def note(self, event: StepEvent, milliseconds: float | None) -> None:
        if event.kind not in _KINDS or not event.frames or not self._is_wanted():
            return
        last = event.frames[-1]
        known = self._found.setdefault((last.path, last.line, event.kind, event.op), [event, 0, None, set()])
        known[1] += 1
        known[3].add(self._replays())
        if milliseconds is not None:
            known[2] = (known[2] or 0.0) + milliseconds

    def forget(self) -> None:
        self._found.clear()

    def facts(self) -> tuple[WaitFacts, ...]:
        outside = {0, self._replays()}  # waits before the first replay, or after the last one
        return tuple(
            WaitFacts(event, count, milliseconds, len(seen - outside))
            for event, count, milliseconds, seen in list(self._found.values())
        )
