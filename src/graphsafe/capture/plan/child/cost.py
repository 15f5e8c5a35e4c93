"""Estimates the cost of a plan in launches, so that plans can be compared without running them.

An operation that runs eagerly costs one launch. A segment costs one launch. Each tensor that a break passes on also
costs one launch, because it is copied. The host's own work at a break costs half a launch. Of two plans with the same
cost, the one with fewer pieces is chosen.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from graphsafe.capture.plan.child.watch import Log, Op, Visit
from graphsafe.capture.plan.shared.regions import Region, function_of, function_with, lines_of, merged
from graphsafe.report.model import CallSite

Group = tuple[object, ...]
"""The group of an operation: the visit of a break, or the candidate, in which the operation runs. Captured operations
have the empty group."""


@dataclass(frozen=True, slots=True, order=True)
class Cost:
    launches: float
    pieces: int
    eager: int
    "Number of operations that run eagerly."


class Groups:
    """Assigns each operation of a log to a group: the visit of a break, or the candidate for a further break, in which
    it runs. The frames that a candidate covers are computed only once, because many combinations of candidates are
    tried."""

    def __init__(self, log: Log) -> None:
        numbers: dict[tuple[CallSite, ...], int] = {}
        self._covered: dict[Region, dict[int, tuple[int, Group]]] = {}
        # The visit with index `n` begins right before the operations whose `after` is larger than `n`.
        rows: list[tuple[tuple[int, int], tuple[CallSite, ...], Group, Op | None]]
        rows = [((at, 0), visit.frames, ("visit", at), None) for at, visit in enumerate(log.visits)]
        rows += [((op.after - 1, 1), op.frames, () if op.visit is None else ("visit", op.visit), op) for op in log.ops]
        rows.sort(key=lambda row: row[0])
        self._rows = [(numbers.setdefault(frames, len(numbers)), group, op) for _, frames, group, op in rows]
        """For each operation: the number of its call stack, the group that it has if no candidate is chosen, and the
        operation itself. At the beginning of a visit there is a row with None in place of an operation."""
        self._frames = list(numbers)

    def of(self, candidates: Sequence[Region]) -> Iterator[tuple[Group, Op | None]]:
        """Yield each operation with its group. A visit of a break is yielded with None in place of an operation."""
        chosen: dict[int, tuple[int, Group]] = {}
        for region in candidates:
            for number, pair in self._covered_by(region).items():
                chosen[number] = min(chosen.get(number, pair), pair, key=lambda one: one[0])
        for number, group, op in self._rows:
            yield chosen[number][1] if number in chosen else group, op

    def _covered_by(self, region: Region) -> dict[int, tuple[int, Group]]:
        """For each call stack that passes through the region, return the depth of the region's function in the stack,
        and the group. The keys are the numbers of the stacks."""
        if region not in self._covered:
            found: dict[int, tuple[int, Group]] = {}
            for number, frames in enumerate(self._frames):
                at = next((at for at, frame in enumerate(frames) if in_region(frame, region)), None)
                if at is not None:
                    found[number] = at, ("candidate", frames[:at], region)
            self._covered[region] = found
        return self._covered[region]


def cost_of(log: Log, candidates: Sequence[Region], groups: Groups | None = None) -> Cost:
    """Return the cost of a plan that has the log's breaks and also the candidates. Candidates do not overlap."""
    eager: set[int] = set()
    copied: set[int] = set()
    launches = segments = pieces = 0
    last: Group | None = None
    for group, op in (groups or Groups(log)).of(candidates):
        if op is not None and not op.launches:
            eager |= {op.number} if group else set()
            continue
        if group is not last and group != last:
            pieces, last = pieces + 1, group
            segments += not group
        if op is not None and group:
            eager.add(op.number)
            launches += 1
        elif op is not None:
            copied.update(key for key in op.reads if log.made_by.get(key) in eager)
    return Cost(launches + segments + len(copied) + (pieces - segments) / 2, pieces, launches)


def in_region(frame: CallSite, region: Region) -> bool:
    return frame.path == region.path and frame.line in lines_of(region) and function_of(frame) is function_with(region)


def cheaper(log: Log, regions: Sequence[Region]) -> tuple[Region, ...]:
    """Return wider breaks that cost less than the log's breaks, or cost the same with fewer pieces.

    Candidates that make the fewest operations eager are tried first. Equal candidates have a fixed order, so that every
    run makes the same choice: a wider break in the same function comes before the call of the function, and a break
    with fewer lines comes before a break with more lines.
    """
    chosen: tuple[Region, ...] = ()
    groups = Groups(log)
    best, found = cost_of(log, (), groups), wider(log, regions)
    broken = {function_with(region) for region in regions}

    def preference(one: Region) -> tuple[object, ...]:
        return function_with(one) not in broken, one.last - one.first, one

    while True:
        states = [(cost_of(log, state, groups), state, one) for one in found for state in (merged((*chosen, one)),)]
        better = [option for option in states if option[0] < best]
        if not better:
            return chosen
        best, chosen, _ = min(better, key=lambda option: (option[0].eager, option[0], preference(option[2])))
        found = {one for *_, one in better}


def with_breaks(log: Log, regions: Sequence[Region]) -> Log:
    """Estimate, from the operations alone, the log that the same step would have with other breaks."""
    visits: list[Visit] = []
    ops: list[Op] = []
    last: Group = ()
    for group, op in Groups(replace(log, ops=[replace(op, visit=None) for op in log.ops], visits=[])).of(regions):
        assert op is not None
        if group and group != last:
            _, frames, region = group
            assert isinstance(frames, tuple) and isinstance(region, Region)
            visits.append(Visit(regions.index(region), (*frames, op.frames[len(frames)]), {}))
        last = group
        ops.append(replace(op, visit=len(visits) - 1 if group else None, after=len(visits)))
    return replace(log, ops=ops, visits=visits)


def wider(log: Log, regions: Sequence[Region]) -> set[Region]:
    """Return wider regions that may cost less. Such a region reaches to the next break, or to the beginning or the end
    of the break's function."""
    found: set[Region] = set()
    visits = log.visits
    for visit in visits:
        found |= set(_ends(visit.frames, regions[visit.number]))
    for before, after in itertools.pairwise(visits):
        found |= set(_between(before.frames, after.frames, regions[before.number], regions[after.number]))
    legal = {function_with(region).legal(region) for region in found}
    return {region for region in legal if region is not None} - set(regions)


def _ends(frames: Sequence[CallSite], region: Region) -> Iterator[Region]:
    for at, frame in enumerate(frames):
        function = function_of(frame)
        if function is None:
            continue
        inner = region if at == len(frames) - 1 else function.statement_at(frame.line)
        place = None if inner is None else function.place(inner)
        for other in () if place is None else place.block:
            line = function.statement_at(other.lineno)
            if inner is not None and line is not None:
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
