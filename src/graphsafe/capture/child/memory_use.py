"""Computes how much memory a step or a graph holds at its peak, and which lines allocated it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from graphsafe.capture.device.protocol import MemoryEvent
from graphsafe.report.model import CallSite
from graphsafe.report.probes.memory import Held, HeldLine

Place = CallSite | None


def memory_held(events: Sequence[MemoryEvent]) -> Held:
    """Return the memory that the events hold, in total and for each line. The lines with the most memory come first."""
    peak = _peak(events)
    at_peak: Counter[Place] = Counter()
    allocated: Counter[Place] = Counter()
    count: Counter[Place] = Counter()
    live: dict[int, tuple[Place, int]] = {}
    for number, event in enumerate(events):
        if event.nbytes:
            allocated[event.place] += event.nbytes
            count[event.place] += 1
            live[event.block] = event.place, event.nbytes
        else:
            live.pop(event.block, None)
        if number == peak:
            at_peak = _by_line(live)
    kept = _by_line(live)
    lines = [
        HeldLine(at_peak[place], allocated[place], count[place], kept[place], () if place is None else (place,))
        for place in sorted(count, key=lambda place: (at_peak[place], allocated[place]), reverse=True)
    ]
    return Held(at_peak.total(), allocated.total(), count.total(), kept.total(), tuple(lines))


def _by_line(live: dict[int, tuple[Place, int]]) -> Counter[Place]:
    found: Counter[Place] = Counter()
    for place, nbytes in live.values():
        found[place] += nbytes
    return found


def pool_memory_held(events: Sequence[MemoryEvent]) -> Held:
    """Return the memory that a capture took from its graph's pool, in total and for each line."""
    return memory_held([event for event in events if event.private or not event.nbytes])


def _peak(events: Sequence[MemoryEvent]) -> int | None:
    """Return the index of the event after which most bytes are held."""
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
