"""Finds writes to memory that graphs read, if nothing orders the write before or after the replay.

Each stream has a clock. The clock says how much work of every other stream is certainly done before the next work of
this stream begins. When a stream waits for an event, the clock of the event is merged into the clock of the stream.
When the host waits, the clock of the event or the stream is merged into the host's clock, which counts for all later
work.
"""

from __future__ import annotations

import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import torch

from graphsafe.capture.shared.frames import user_frames
from graphsafe.report.ledger.model import Access
from graphsafe.report.model import CallSite

Stream = tuple[int, int]
"A device and a stream on it."
Clock = dict[Stream, int]
Frames = tuple[CallSite, ...]
Unordered = tuple[Frames, Frames, int, bool]
"A write and a replay (or a copy) without an order: the calls of each, the storage, and whether the host wrote."


@dataclass(frozen=True, slots=True)
class _Work:
    stream: Stream
    count: int
    frames: Frames


class Refills:
    def __init__(self, events: MutableMapping[Any, Clock] | None = None) -> None:
        """Make an empty record. `events` maps each existing event to its clock."""
        self._work: Counter[Stream] = Counter()
        self._seen: dict[Stream, Clock] = defaultdict(dict)
        self._host: Clock = {}
        self._events = weakref.WeakKeyDictionary() if events is None else events
        self._used: set[int] = set()
        "Storages outside pools that graphs use, and storages from which the program copies into them."
        self._fed: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self._reads: dict[int, _Work] = {}
        self._writes: dict[int, _Work] = {}
        self._found: dict[tuple[CallSite, CallSite | None], Unordered] = {}

    def captured(self, storages: Iterable[int]) -> None:
        self._used.update(storages)

    def dropped(self, storage: int) -> None:
        """Forget a storage that was freed, because a new storage may get its number."""
        self._used.discard(storage)
        self._fed.pop(storage, None)
        self._reads.pop(storage, None)
        self._writes.pop(storage, None)

    def recorded(self, event: Any, stream: Stream) -> None:
        self._events[event] = self._clock(stream)

    def waited(self, stream: Stream, event: Any) -> None:
        _join(self._seen[stream], self._events.get(event, {}))

    def host_waited(self, stream: Stream | None = None, event: Any = None) -> None:
        """Record that the host waited for a stream, for an event, or for all streams."""
        if event is not None:
            _join(self._host, self._events.get(event, {}))
            return
        for each in [stream] if stream is not None else list(self._work):
            _join(self._host, self._clock(each))

    def forgotten(self, event: Any) -> None:
        self._events.pop(event, None)

    def wrote(self, stream: Stream, storages: Iterable[int], frames: Frames | None = None) -> None:
        """Record that an eager operation wrote to storages. The writer is the user's running line, unless `frames` is
        given."""
        used = self._used.intersection(storages)
        if used:
            self._work[stream] += 1
            work = _Work(stream, self._work[stream], user_frames()[0] if frames is None else frames)
            for storage in used:
                self._write(storage, work)

    def copied(self, stream: Stream, source: int) -> None:
        """Record that the user's running line makes a stream copy from the memory with this number."""
        self._work[stream] += 1
        self._reads[source] = _Work(stream, self._work[stream], user_frames()[0])

    def fed(self, stream: Stream, source: torch.UntypedStorage, targets: Iterable[int]) -> None:
        """Record that a stream is about to copy from `source` to `targets`.

        If a graph uses one of the targets, `source` is watched like the graph's own inputs until it is freed.
        """
        if self._used.isdisjoint(targets):
            return
        number = int(source._cdata)
        if number not in self._used:
            self._used.add(number)
            self._fed[number] = weakref.ref(source, lambda _: self.dropped(number))
        before = self._writes.get(number)
        if before is not None and not self._is_ordered(stream, before):
            self._tell(number, before.frames, user_frames()[0])
        self.copied(stream, number)

    def is_read(self, storage: int) -> bool:
        """Return whether some work that reads host memory may still run, because the host has not waited for it."""
        before = self._reads.get(storage)
        return before is not None and self._host.get(before.stream, 0) < before.count

    def host_wrote(self, storages: Iterable[int], frames: Callable[[], Frames]) -> None:
        """Record that the host wrote to host memory from which graphs or streams copy.

        The write is a fault unless the host has waited for earlier replays and copies. `frames` returns the calls that
        led to the write.
        """
        for storage in storages:
            if self.is_read(storage):
                self._tell(storage, frames(), self._reads[storage].frames, by_host=True)

    def replayed(self, stream: Stream, uses: Mapping[int, Access], frames: Frames) -> None:
        """Record that a graph which uses these storages is about to be replayed."""
        self._work[stream] += 1
        work = _Work(stream, self._work[stream], frames)
        for storage, access in uses.items():
            before = self._writes.get(storage)
            if access != "write" and before is not None and not self._is_ordered(stream, before):
                self._tell(storage, before.frames, frames)
        for storage, access in uses.items():
            if access != "read":
                self._write(storage, work)
            if access != "write":
                self._reads[storage] = work

    def found(self) -> list[Unordered]:
        """Return the pairs of a write and a replay (or a copy) that use the same storage and have no order. There is
        one pair for each pair of lines."""
        return list(self._found.values())

    def _write(self, storage: int, work: _Work) -> None:
        before = self._reads.get(storage)
        if before is not None and not self._is_ordered(work.stream, before):
            self._tell(storage, work.frames, before.frames)
        self._writes[storage] = work

    def _is_ordered(self, stream: Stream, before: _Work) -> bool:
        known = max(self._seen[stream].get(before.stream, 0), self._host.get(before.stream, 0))
        return stream == before.stream or known >= before.count

    def _tell(self, storage: int, write: Frames, replay: Frames, by_host: bool = False) -> None:
        if write:
            self._found.setdefault((write[-1], replay[-1] if replay else None), (write, replay, storage, by_host))

    def _clock(self, stream: Stream) -> Clock:
        return {**self._seen[stream], stream: self._work[stream]}


def _join(clock: Clock, other: Clock) -> None:
    for stream, count in other.items():
        clock[stream] = max(clock.get(stream, 0), count)
