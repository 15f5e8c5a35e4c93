"""Finds writes to memory that graphs read, where nothing orders the write before or after a replay.

Each stream has a clock. The clock says how much work of every other stream is certainly done before the next work of
this stream begins. When a stream waits for an event, the clock of the event is merged into the clock of the stream.
When the host waits, the clock of the event or the stream is merged into the host's clock, which applies to all later
work.
"""

from __future__ import annotations

import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import torch

from graphsafe.capture.device.races import Access as Elements
from graphsafe.capture.device.races import access_of, overlap
from graphsafe.capture.shared.frames import user_frames
from graphsafe.report.ledger.model import Access
from graphsafe.report.model import CallSite
from graphsafe.run.child.names import storage_number
from graphsafe.run.facts import Calls

Stream = tuple[int, int]
"A device and a stream on it."
Clock = Counter[Stream]
Unordered = tuple[Calls, Calls, int, bool]
"A write and a replay (or a copy) without an order: the calls of each, the storage, and whether the host wrote."
Part = frozenset[Elements]
"The elements of a storage that some work uses."
ALL: Part = frozenset()
"Stands for the whole storage, or for an unknown part."
Parts = Mapping[int, Part]
"Number of a storage -> the part of it that is used. Without such a mapping, each storage is used as a whole."
_MOST_PARTS = 16
"At most this many parts of each storage are followed, each with the last work that used it."


@dataclass(frozen=True, slots=True)
class _Work:
    stream: Stream
    count: int
    frames: Calls


class Refills:
    def __init__(self, events: MutableMapping[Any, Clock] | None = None) -> None:
        """Make an empty record. `events` maps each existing event to its clock."""
        self._work: Counter[Stream] = Counter()
        self._seen: dict[Stream, Clock] = defaultdict(Counter)
        self._host: Clock = Counter()
        self._events = weakref.WeakKeyDictionary() if events is None else events
        self._used: set[int] = set()
        "Storages that graphs use outside their pools, and storages from which the program copies into these."
        self._fed: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self._reads: dict[int, dict[Part, _Work]] = defaultdict(dict)
        self._writes: dict[int, dict[Part, _Work]] = defaultdict(dict)
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
        self._seen[stream] |= self._events.get(event, Counter())

    def host_waited(self, stream: Stream | None = None, event: Any = None) -> None:
        """Record that the host waited for a stream, for an event, or for all streams."""
        if event is not None:
            self._host |= self._events.get(event, Counter())
            return
        for each in [stream] if stream is not None else list(self._work):
            self._host |= self._clock(each)

    def forgotten(self, event: Any) -> None:
        self._events.pop(event, None)

    def wrote(
        self, stream: Stream, storages: Iterable[int], frames: Calls | None = None, parts: Parts | None = None
    ) -> None:
        """Record that an eager operation wrote to parts of storages. The writer is the user's running line, unless
        `frames` is given."""
        used = self._used.intersection(storages)
        if used:
            self._work[stream] += 1
            work = _Work(stream, self._work[stream], user_frames()[0] if frames is None else frames)
            for storage in used:
                self._write(storage, work, parts)

    def copied(self, stream: Stream, source: int, parts: Parts | None = None) -> None:
        """Record that, at the user's running line, a stream begins to copy from the memory with this number."""
        self._work[stream] += 1
        _keep(self._reads[source], _part(parts, source), _Work(stream, self._work[stream], user_frames()[0]))

    def fed(self, stream: Stream, source: torch.Tensor, targets: Iterable[int]) -> None:
        """Record that a stream is about to copy from `source` to `targets`.

        If a graph uses one of the targets, `source` is watched like the graph's own inputs until it is freed.
        """
        if self._used.isdisjoint(targets):
            return
        storage = source.untyped_storage()
        number, parts = int(storage._cdata), parts_of([source])
        if number not in self._used:
            self._used.add(number)
            self._fed[number] = weakref.ref(storage, lambda _: self.dropped(number))
        before = self._unordered(self._writes, number, stream, parts)
        if before is not None:
            self._tell(number, before.frames, user_frames()[0])
        self.copied(stream, number, parts)

    def is_read(self, storage: int) -> bool:
        """Return whether some work that reads host memory may still run. This is so if the host has not waited for the
        work."""
        return self._running(storage) is not None

    def _running(self, storage: int, part: Elements | None = None) -> _Work | None:
        """Return the last work that reads host memory, or a part of it, and that may still run."""
        known = reversed(self._reads[storage].items()) if storage in self._reads else ()
        readers = (work for parts, work in known if part is None or parts == ALL or part in parts)
        return next((one for one in readers if self._host[one.stream] < one.count), None)

    def host_wrote(self, storage: int, frames: Callable[[], Calls], part: Elements | None = None) -> None:
        """Record that the host wrote to host memory, or to a part of it, from which graphs or streams copy.

        The write is a fault unless the host has waited for earlier replays and copies. `frames` returns the calls that
        led to the write.
        """
        reader = self._running(storage, part)
        if reader is not None:
            self._tell(storage, frames(), reader.frames, by_host=True)

    def replayed(
        self,
        stream: Stream,
        uses: Mapping[int, Access],
        frames: Calls,
        reads: Parts | None = None,
        writes: Parts | None = None,
    ) -> None:
        """Record that a graph which uses these storages is about to be replayed. It reads and writes these parts."""
        self._work[stream] += 1
        work = _Work(stream, self._work[stream], frames)
        for storage, access in uses.items():
            before = None if access == "write" else self._unordered(self._writes, storage, stream, reads)
            if before is not None:
                self._tell(storage, before.frames, frames)
        for storage, access in uses.items():
            if access != "read":
                self._write(storage, work, writes)
            if access != "write":
                _keep(self._reads[storage], _part(reads, storage), work)

    def found(self) -> list[Unordered]:
        """Return the pairs of a write and a replay (or a copy) that use the same storage and have no order. There is
        one pair for each pair of lines."""
        return list(self._found.values())

    def _write(self, storage: int, work: _Work, parts: Parts | None) -> None:
        before = self._unordered(self._reads, storage, work.stream, parts)
        if before is not None:
            self._tell(storage, work.frames, before.frames)
        _keep(self._writes[storage], _part(parts, storage), work)

    def _unordered(
        self, known: Mapping[int, Mapping[Part, _Work]], storage: int, stream: Stream, parts: Parts | None
    ) -> _Work | None:
        """Return earlier work that used one of these parts and that may still run when the stream's next work starts,
        or None."""
        part, before = _part(parts, storage), known.get(storage, {}).items()
        return next((work for one, work in before if not self._is_ordered(stream, work) and _share(one, part)), None)

    def _is_ordered(self, stream: Stream, before: _Work) -> bool:
        known = max(self._seen[stream][before.stream], self._host[before.stream])
        return stream == before.stream or known >= before.count

    def _tell(self, storage: int, write: Calls, replay: Calls, by_host: bool = False) -> None:
        if write:
            self._found.setdefault((write[-1], replay[-1] if replay else None), (write, replay, storage, by_host))

    def _clock(self, stream: Stream) -> Clock:
        return self._seen[stream] | Counter({stream: self._work[stream]})


def parts_of(tensors: Iterable[torch.Tensor]) -> Parts:
    """For each storage of these tensors, return the parts that the tensors use."""
    found: dict[int, set[Elements]] = defaultdict(set)
    unknown: set[int] = set()
    for tensor in tensors:
        number, elements = storage_number(tensor), access_of(tensor, writes=False)
        if number is not None and elements is not None:
            found[number].add(elements)
        elif number is not None and tensor.numel():
            unknown.add(number)
    return {**{number: frozenset(elements) for number, elements in found.items()}, **dict.fromkeys(unknown, ALL)}


def _part(parts: Parts | None, storage: int) -> Part | None:
    """Return the part of a storage that is used, or None if nothing of it is used."""
    return ALL if parts is None else parts.get(storage)


def _share(one: Part, other: Part | None) -> bool:
    return other is not None and (ALL in (one, other) or any(overlap(a, b) for a in one for b in other))


def _keep(known: dict[Part, _Work], part: Part | None, work: _Work) -> None:
    """Record the last work that used a part of a storage. If there are more than `_MOST_PARTS` parts, the least
    recently used one is forgotten."""
    if part is None:
        return
    known.pop(part, None)
    known[part] = work
    if len(known) > _MOST_PARTS:
        del known[next(iter(known))]
