"""Finds writes to pinned memory while a replay that copies from this memory is still running. Waits are not followed.

An event is recorded after some replays. If the memory has changed before the next replay and the event has not
completed, the host wrote without waiting. A write after the event has completed is not found here. With `--waits`, such
a write is found from the order of all calls.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from graphsafe.capture.device.cuda.nodes import GraphNode
from graphsafe.capture.shared.frames import user_frames
from graphsafe.run.child.host_inputs import HostMemory, checksum, written_at
from graphsafe.run.child.names import addresses_of
from graphsafe.run.child.sight import Touch
from graphsafe.run.facts import Calls

_FIRST = range(16, 32)
"These replays are watched. Earlier replays are not watched, because other checks slow the host down at that time."
_SOMETIMES = 128
"After the replays in `_FIRST`, a replay is watched if its number is a multiple of this one."


class PinnedReads:
    """The pinned memory that one graph copies from."""

    def __init__(
        self,
        nodes: Sequence[GraphNode],
        touches: Sequence[Touch],
        tell: Callable[[Calls, Calls, int], None],
        event: Callable[[], Any] = torch.cuda.Event,
    ) -> None:
        """Find the pinned memory that the graph's copies read.

        `tell` is called with the calls that led to the write, the calls that led to the replay, and the number of the
        storage.
        """
        self._inputs = [one for touch in touches if touch.access == "read" for one in _read(touch.storage, nodes)]
        self._tell = tell
        self._event = event
        self._recorded: Any = None
        "The event that was recorded after the last replay, if that replay is watched."
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._inputs)

    def replaying(self) -> None:
        """Compare the memory with its checksum, before a replay."""
        recorded, self._recorded = self._recorded, None
        if recorded is None:
            return
        for one in self._inputs:
            storage, around = one.storage(), one.around
            if storage is not None and around and checksum(one.memory) != one.checksum and not recorded.query():
                self._tell(written_at(around), user_frames()[0], int(storage._cdata))

    def replayed(self) -> None:
        """Compute checksums and record an event, after some replays."""
        self._count += 1
        if self._count not in _FIRST and self._count % _SOMETIMES:
            return
        for one in self._inputs:
            if not one.around:
                return
            one.checksum = checksum(one.memory)
        event = self._event()
        event.record()
        self._recorded = event


def _read(storage: torch.UntypedStorage, nodes: Sequence[GraphNode]) -> list[HostMemory]:
    """Return the parts of a host storage that a graph's copies read. Return none if the graph contains event nodes."""
    if storage.device.type != "cpu" or any("event" in node.kind for node in nodes):
        return []
    return [HostMemory(weakref.ref(storage), memory) for memory in copied_from(storage, nodes)]


def copied_from(storage: torch.UntypedStorage, nodes: Sequence[GraphNode]) -> list[range]:
    """Return the addresses in a storage from which copies read."""
    found = []
    for node in nodes:
        if node.kind == "memcpy" and node.words[0] in addresses_of(storage):
            width, height, depth = node.launch
            found.append(range(node.words[0], node.words[0] + width * max(height, 1) * max(depth, 1)))
    return found
