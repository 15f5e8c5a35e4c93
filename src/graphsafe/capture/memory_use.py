"""How much memory a step or a graph holds at once, and which lines took it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from graphsafe.capture.device.protocol import MemoryEvent


def memory_held(events: Sequence[MemoryEvent]) -> dict[str, Any]:
    """As a child tells it: `bytes`, the most that was held at once of what was taken here; `allocated` and `count`, in
    all; `kept`, what is held at the end; and the same for each line, the largest first."""
    peak = _peak(events)
    lines: dict[Any, dict[str, Any]] = {}
    live: dict[int, tuple[dict[str, Any], int]] = {}

    def hold(key: str) -> None:
        for line, nbytes in live.values():
            line[key] += nbytes

    for number, event in enumerate(events):
        if event.nbytes:
            frame = None if event.place is None else asdict(event.place)
            line = lines.setdefault(event.place, {"frame": frame, "bytes": 0, "allocated": 0, "count": 0, "kept": 0})
            line["allocated"] += event.nbytes
            line["count"] += 1
            live[event.block] = line, event.nbytes
        else:
            live.pop(event.block, None)
        if number == peak:
            hold("bytes")
    hold("kept")
    found = sorted(lines.values(), key=lambda line: (line["bytes"], line["allocated"]), reverse=True)
    return {
        **{key: sum(line[key] for line in found) for key in ("bytes", "allocated", "count", "kept")},
        "lines": found,
    }


def pool_memory_held(events: Sequence[MemoryEvent]) -> dict[str, Any]:
    """The same of what a capture took of a graph's own pool."""
    return memory_held([event for event in events if event.private or not event.nbytes])


def _peak(events: Sequence[MemoryEvent]) -> int | None:
    """The number of the event after which most bytes are held."""
    live: dict[int, int] = {}
    held, most, peak = 0, 0, None
    for number, event in enumerate(events):
        held -= live.pop(event.block, 0)
        if event.nbytes:
            live[event.block] = event.nbytes
            held += event.nbytes
        if held > most:
            most, peak = held, number
    return peak
