"""Estimates the cost of a plan in launches, to choose between plans without running them.

An operation that runs eagerly costs one launch. So does a segment, and each tensor that a break hands over, because it
is copied. A break by itself costs the host half a launch. If two plans cost the same, the one with fewer pieces is
taken.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from graphsafe.capture.plan.child.watch import Log, Op, Visit
from graphsafe.capture.plan.shared.regions import Region, function_of, function_with, merged
from graphsafe.report.model import CallSite

Group = tuple[object, ...]
"The visit of a break, or the candidate, in which operations run; empty for captured operations."


@dataclass(frozen=True, slots=True, order=True)
class Cost:
    launches: float
    pieces: int
    eager: int
    "Operations that run eagerly."


def cost_of(log: Log, candidates: Sequence[Region] = ()) -> Cost:
    """Return the cost of the breaks that the log was made with and of the candidates, which do not overlap."""
    eager: set[int] = set()
    copied: set[int] = set()
    launches = segments = pieces = 0
    last: Group | None = None
    for group, op in grouped(log, candidates):
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
    return Cost(launches + segments + len(copied) + (pieces - segments) / 2, pieces, launches)


def grouped(log: Log, candidates: Sequence[Region] = ()) -> Iterator[tuple[Group, Op | None]]:
    """Give each operation of a step with the visit of a break that it runs in; a visit without operations comes alone,
    with None."""
    covers = _Covers(candidates)
    reported = 0
    for op in log.ops:
        for number in range(reported, op.after):
            yield covers.group(log.visits[number].frames) or ("visit", number), None
        reported = max(reported, op.after)
        yield covers.group(op.frames) or (() if op.visit is None else ("visit", op.visit)), op
    for number in range(reported, len(log.visits)):
        yield covers.group(log.visits[number].frames) or ("visit", number), None


class _Covers:
    """Tells which frames pass through one of several regions, and finds the frames above it."""

    def __init__(self, regions: Sequence[Region]) -> None:
        self._known: dict[tuple[CallSite, ...], Group | None] = {}
        self._regions = [(region, lines_of(region)) for region in regions]

    def group(self, frames: tuple[CallSite, ...]) -> Group | None:
        if not self._regions:
            return None
        if frames not in self._known:
            self._known[frames] = next(
                (
                    ("candidate", frames[:at], region)
                    for at, frame in enumerate(frames)
                    for region, lines in self._regions
                    if in_region(frame, region, lines)
                ),
                None,
            )
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


def cheaper(log: Log, regions: Sequence[Region]) -> tuple[Region, ...]:
    """Return wider breaks that cost less, or as much with fewer pieces.

    The first to be tried makes the fewest operations eager. Of equal ones a wider break of the same function is taken
    before the call of that function, then the one with the fewest lines, so that every run chooses alike.
    """
    chosen: tuple[Region, ...] = ()
    best, found = cost_of(log), wider(log, regions)
    broken = {function_with(region) for region in regions}

    def preference(one: Region) -> tuple[object, ...]:
        return function_with(one) not in broken, one.last - one.first, one

    while True:
        states = [(cost_of(log, state), state, one) for one in found for state in (merged((*chosen, one)),)]
        better = [option for option in states if option[0] < best]
        if not better:
            return chosen
        best, chosen, _ = min(better, key=lambda option: (option[0].eager, option[0], preference(option[2])))
        found = {one for *_, one in better}


def with_breaks(log: Log, regions: Sequence[Region]) -> Log:
    """Return the log of the same step with other breaks, as far as its operations tell."""
    covers = _Covers(regions)
    visits: list[Visit] = []
    ops: list[Op] = []
    last: Group | None = None
    for op in log.ops:
        group = covers.group(op.frames)
        if group is not None and group != last:
            region: Any = group[-1]
            frames: Any = group[1]
            visits.append(Visit(regions.index(region), (*frames, op.frames[len(frames)]), {}))
        last = group
        ops.append(replace(op, visit=None if group is None else len(visits) - 1, after=len(visits)))
    return replace(log, ops=ops, visits=visits)


def wider(log: Log, regions: Sequence[Region]) -> set[Region]:
    """Return regions that might cost less: around everything between two breaks, and from a break to either end of its
    function."""
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
