"""Finds writes to memory that graphs read, and tells whether streams order these writes relative to the replays.

Each stream has a clock, which shows how much of every other stream's work comes before the stream's next work. Waiting
for an event or a stream joins the clocks. A wait of the host joins them for all later launches.
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
"The device and the number of a stream."
Clock = dict[Stream, int]
Frames = tuple[CallSite, ...]
Unordered = tuple[Frames, Frames, int, bool]
"A write and a replay (or a copy) that nothing orders: the calls of each, their storage, and whether the host wrote."


@dataclass(frozen=True, slots=True)
class _Work:
    stream: Stream
    count: int
    frames: Frames


class Refills:
    def __init__(self, events: MutableMapping[Any, Clock] | None = None) -> None:
        """Make the record. `events` maps each event to its clock, as long as the event exists."""
        self._work: Counter[Stream] = Counter()
        self._seen: dict[Stream, Clock] = defaultdict(dict)
        self._host: Clock = {}
        self._events = weakref.WeakKeyDictionary() if events is None else events
        self._used: set[int] = set()
        "Storages outside graphs' pools that graphs use, and the storages from which the program copies into them."
        self._fed: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self._reads: dict[int, _Work] = {}
        self._writes: dict[int, _Work] = {}
        self._found: dict[tuple[CallSite, CallSite | None], Unordered] = {}

    def captured(self, storages: Iterable[int]) -> None:
        self._used.update(storages)

    def dropped(self, storage: int) -> None:
        """Forget a storage that has died, because a new storage may get its number."""
        self._used.discard(storage)
        self._fed.pop(storage, None)
        self._reads.pop(storage, None)
        self._writes.pop(storage, None)

    def recorded(self, event: Any, stream: Stream) -> None:
        self._events[event] = self._clock(stream)

    def waited(self, stream: Stream, event: Any) -> None:
        _join(self._seen[stream], self._events.get(event, {}))

    def host_waited(self, stream: Stream | None = None, event: Any = None) -> None:
        """Record that the host waited for a stream, for an event, or for everything."""
        if event is not None:
            _join(self._host, self._events.get(event, {}))
            return
        for each in [stream] if stream is not None else list(self._work):
            _join(self._host, self._clock(each))

    def forgotten(self, event: Any) -> None:
        self._events.pop(event, None)

    def wrote(self, stream: Stream, storages: Iterable[int], frames: Frames | None = None) -> None:
        """Record that an eager operation wrote to storages, on the user's running line unless `frames` is given."""
        used = self._used.intersection(storages)
        if used:
            self._work[stream] += 1
            work = _Work(stream, self._work[stream], user_frames()[0] if frames is None else frames)
            for storage in used:
                self._write(storage, work)

    def copied(self, stream: Stream, source: int) -> None:
        """Record that a stream is about to copy the memory with this number, on the user's line that runs now."""
        self._work[stream] += 1
        self._reads[source] = _Work(stream, self._work[stream], user_frames()[0])

    def fed(self, stream: Stream, source: torch.UntypedStorage, targets: Iterable[int]) -> None:
        """Record that a stream is about to copy from `source` to `targets`. If a graph uses one of the targets,
        `source` is watched like memory of the graph for as long as it lives."""
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
        """Return whether some work that reads the host's memory may still run, because the host has not waited for
        it."""
        before = self._reads.get(storage)
        return before is not None and self._host.get(before.stream, 0) < before.count

    def host_wrote(self, storages: Iterable[int], frames: Callable[[], Frames]) -> None:
        """Record that the host wrote to its own memory, from which graphs or streams copy; the host must have waited
        for earlier replays and copies. `frames` returns the calls that wrote."""
        for storage in storages:
            if self.is_read(storage):
                self._tell(storage, frames(), self._reads[storage].frames, by_host=True)

    def replayed(self, stream: Stream, uses: Mapping[int, Access], frames: Frames) -> None:
        """Record that a graph that uses these storages is about to be replayed."""
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
        """Return the first pairs of a write and a replay (or a copy) of one storage that nothing orders, by their
        lines."""
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
