"""What the caching allocator is asked for, with the lines that ask: its own history, with Python's frames.

It notes what it does and does nothing else for it, so the blocks are those of an unwatched run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from graphsafe.capture.device.protocol import MemoryEvent
from graphsafe.capture.lines.frames import absolute, is_user_file
from graphsafe.report.model import CallSite


@contextmanager
def allocations_watched(index: int) -> Iterator[list[MemoryEvent]]:
    found: list[MemoryEvent] = []
    torch.cuda.memory._record_memory_history("all", context="alloc", stacks="python")
    try:
        yield found
    finally:
        history: Any = torch.cuda.memory._snapshot()
        torch.cuda.memory._record_memory_history(None)
    found += memory_events(history["device_traces"][index])


def memory_events(trace: Sequence[Mapping[str, Any]]) -> list[MemoryEvent]:
    """From one device's trace in a memory snapshot. A block counts as held until it can be used again: the allocator
    waits for other streams that use it."""
    found = []
    for entry in trace:
        if entry["action"] == "alloc":
            found.append(MemoryEvent(int(entry["addr"]), int(entry["size"]), _place(entry.get("frames") or ())))
        elif entry["action"] == "free_completed":
            found.append(MemoryEvent(int(entry["addr"]), 0))
    return found


def _place(frames: Sequence[Mapping[str, Any]]) -> CallSite | None:
    """Of the innermost frame that is the user's; the trace has that one first."""
    for frame in frames:
        if is_user_file(frame["filename"]):
            return CallSite(absolute(frame["filename"]), int(frame["line"]), frame["name"])
    return None
