"""What a plan costs, in launches, to choose between plans without running them.

An operation that runs eagerly costs one launch, a segment one, and each tensor that a break hands over one, because it
is copied. A break by itself costs the host half of one. Where plans cost the same, the one with fewer pieces is taken.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graphsafe.capture.plan.regions import Region, function_of, function_with
from graphsafe.capture.plan.watch import Log, Op
from graphsafe.report.model import CallSite

Group = tuple[object, ...]
"Of one visit of a break; empty for what is captured."


@dataclass(frozen=True, slots=True, order=True)
class Cost:
    launches: float
    pieces: int


def cost_of(log: Log, candidate: Region | None = None) -> Cost:
    """Of the breaks that the log was made with, and one more."""
    eager: set[int] = set()
    copied: set[int] = set()
    launches = segments = pieces = 0
    last: Group | None = None
    for group, op in grouped(log, candidate):
        if op is not None and not op.launches:
            eager |= {op.number} if group else set()
            continue
        if group != last:
            pieces, last = pieces + 1, group
            segments += not group
        if op is not None and group:
            eager.add(op.number)
            launches += 1
        elif op is not None:
            copied.update(key for key in op.reads if log.births.get(key) in eager)
    return Cost(launches + segments + len(copied) + (pieces - segments) / 2, pieces)


def grouped(log: Log, candidate: Region | None = None) -> Iterator[tuple[Group, Op | None]]:
    """Each operation of a step with the visit of a break that it runs in; visits without one stand by themselves."""
    covers = _Covers(candidate)
    reported = 0
    for op in log.ops:
        for number in range(reported, op.after):
            frames = log.visits[number].frames
            prefix = covers.prefix(frames)
            yield (("candidate", prefix) if prefix is not None else ("visit", number)), None
        reported = max(reported, op.after)
        prefix = covers.prefix(op.frames)
        if prefix is not None:
            yield ("candidate", prefix), op
        else:
            yield (() if op.visit is None else ("visit", op.visit)), op
    for number in range(reported, len(log.visits)):
        prefix = covers.prefix(log.visits[number].frames)
        yield (("candidate", prefix) if prefix is not None else ("visit", number)), None


class _Covers:
    """Which frames pass through a region, and what is above it."""

    def __init__(self, region: Region | None) -> None:
        self._region = region
        self._known: dict[tuple[CallSite, ...], tuple[CallSite, ...] | None] = {}
        self._lines = range(0) if region is None else lines_of(region)

    def prefix(self, frames: tuple[CallSite, ...]) -> tuple[CallSite, ...] | None:
        if self._region is None:
            return None
        if frames not in self._known:
            at = next((n for n, frame in enumerate(frames) if in_region(frame, self._region, self._lines)), None)
            self._known[frames] = None if at is None else frames[:at]
        return self._known[frames]


def lines_of(region: Region) -> range:
    function = function_with(region)
    place = function.place(region)
    last = region.last if place is None else place.statements[-1].end_lineno or region.last
    return range(region.first, last + 1)


def in_region(frame: CallSite, region: Region, lines: range | None = None) -> bool:
    if frame.path != region.path or frame.line not in (lines_of(region) if lines is None else lines):
        return False
    function = function_of(frame)
    return function is not None and (function.name, function.line) == (region.function, region.line)


def wider(log: Log, regions: Sequence[Region]) -> set[Region]:
    """Regions that might pay: around what lies between two breaks, and from a break to either end of its function."""
    found: set[Region] = set()
    visits = log.visits
    for visit in visits:
        found |= set(_ends(visit.frames, regions[visit.number]))
    for before, after in itertools.pairwise(visits):
        found |= set(_between(before.frames, after.frames, regions[before.number], regions[after.number]))
    legal = {function_with(region).legal(region) for region in found}
    return {region for region in legal if region is not None} - set(regions)


def _ends(frames: Sequence[CallSite], region: Region) -> Iterator[Region]:
    for at in range(len(frames)):
        function = function_of(frames[at])
        inner = (
            region if at == len(frames) - 1 else None if function is None else function.statement_at(frames[at].line)
        )
        place = None if function is None or inner is None else function.place(inner)
        if function is None or inner is None or place is None:
            continue
        for other in place.block:
            line = function.statement_at(other.lineno)
            if line is not None:
                yield function.hull(inner, line)


def _between(one: Sequence[CallSite], two: Sequence[CallSite], first: Region, second: Region) -> Iterator[Region]:
    at = 0
    while at < min(len(one), len(two)) - 1 and one[at] == two[at]:
        at += 1
    function = function_of(one[at])
    if function is None:
        return
    if one[at] != two[at] and (one[at].path, one[at].function) != (two[at].path, two[at].function):
        return
    left = first if at == len(one) - 1 else function.statement_at(one[at].line)
    right = second if at == len(two) - 1 else function.statement_at(two[at].line)
    if left is None or right is None:
        return
    region: Region | None = function.hull(left, right)
    while region is not None:
        yield region
        region = function.around(region)
