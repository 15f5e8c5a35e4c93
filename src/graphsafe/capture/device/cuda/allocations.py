"""Reads from the caching allocator's own history, with Python's frames, which lines allocated and freed memory.

Recording the history does not change the allocations.
"""

from __future__ import annotations

import bisect
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from graphsafe.capture.device.cuda.compiler_import import no_compiler_import
from graphsafe.capture.device.protocol import MemoryEvent
from graphsafe.capture.shared.frames import absolute, is_user_file
from graphsafe.report.model import CallSite

_COMMON_POOL = (0, 0)


@contextmanager
def allocations_watched(index: int) -> Iterator[list[MemoryEvent]]:
    found: list[MemoryEvent] = []
    torch.cuda.memory._record_memory_history("all", context="alloc", stacks="python")
    try:
        yield found
    finally:
        with no_compiler_import():
            history: Any = torch.cuda.memory._snapshot()
        torch.cuda.memory._record_memory_history(None)
    found += memory_events(history["device_traces"][index], history["segments"])


def memory_events(trace: Sequence[Mapping[str, Any]], segments: Sequence[Mapping[str, Any]]) -> list[MemoryEvent]:
    """Read one device's trace. A block is held until it can be reused, perhaps after other streams."""
    own = sorted(
        (int(segment["address"]), int(segment["address"]) + int(segment["total_size"]))
        for segment in segments
        if tuple(segment["segment_pool_id"]) != _COMMON_POOL
    )

    def is_private(address: int) -> bool:
        at = bisect.bisect_right(own, (address, sys.maxsize)) - 1
        return at >= 0 and own[at][0] <= address < own[at][1]

    found = []
    for entry in trace:
        if entry["action"] == "alloc":
            block, place = int(entry["addr"]), _place(entry.get("frames") or ())
            found.append(MemoryEvent(block, int(entry["size"]), place, is_private(block)))
        elif entry["action"] == "free_completed":
            found.append(MemoryEvent(int(entry["addr"]), 0))
    return found


def _place(frames: Sequence[Mapping[str, Any]]) -> CallSite | None:
    """Return the place of the innermost user's frame; the trace lists the innermost frame first."""
    for frame in frames:
        if is_user_file(frame["filename"]):
            return CallSite(absolute(frame["filename"]), int(frame["line"]), frame["name"])
    return None
