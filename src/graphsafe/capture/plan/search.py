"""Finds the breaks: from what is known to fail, outward, until several eager steps on changed inputs do the same
between the breaks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from graphsafe.capture.plan.causes import Cause
from graphsafe.capture.plan.cost import cost_of, wider
from graphsafe.capture.plan.freezes import Need, needs
from graphsafe.capture.plan.regions import Function, Region, function_of, function_with, merged, region_of
from graphsafe.capture.plan.rewrite import Uncuttable
from graphsafe.capture.plan.runtime import Handed
from graphsafe.capture.plan.watch import Log, watched
from graphsafe.capture.session import FIRST_SEED, REPLAYS
from graphsafe.report.model import CallSite

if TYPE_CHECKING:
    from graphsafe.capture.session import Session
    from graphsafe.capture.state import Snapshot
    from graphsafe.optable import OpTable

_MOST_ROUNDS = 24


class Unplannable(Exception):
    """Why there is no plan: one sentence."""


class Search:
    """`find()` settles the breaks; `widen(...)` takes what a replay has shown, and it can be asked again."""

    def __init__(
        self, session: Session, start: Snapshot, table: OpTable, assigned: Mapping[str, tuple[CallSite, ...]]
    ) -> None:
        self._session = session
        self.start = start
        "The state from which each look at the segments begins."
        self._table = table
        self._assigned = assigned
        self.regions: tuple[Region, ...] = ()
        self._handed: dict[Region, Handed] = {}
        self.causes: list[Cause] = []
        self.log = Log()
        "Of an eager step with these breaks: the one that did most."
        self._closed: set[Function] = set()
        "Functions whose code cannot be changed."
        self._rounds = 0

    @property
    def handed(self) -> dict[int, Handed]:
        """By the number of the region: what all regions hand over that have become part of it."""
        found = {}
        for number, region in enumerate(self.regions):
            parts = [handed for inner, handed in self._handed.items() if _holds(region, inner)]
            private = frozenset(name for part in parts for name in part.private)
            found[number] = Handed(private, tuple(dict.fromkeys(slot for part in parts for slot in part.slots)))
        return found

    def blame(self, causes: Iterable[Cause]) -> None:
        """The line of each cause runs eagerly. Raises Unplannable where one cannot be cut out."""
        for cause in causes:
            self.causes.append(cause)
            self._add(cause.frames, cause.reason, block=cause.guarded)

    def find(self) -> None:
        """Raises Unplannable, and TargetError."""
        while True:
            try:
                logs = self._logs()
            except Uncuttable as error:
                self._close(error)
                continue
            self.log = max(logs, key=lambda log: sum(op.launches for op in log.ops))
            found = needs(logs, self.handed, self._assigned)
            before = (self.regions, self.handed)
            if found:
                regions = self.regions
                for need in found:
                    self._answer(need, regions)
                if before == (self.regions, self.handed):
                    raise Unplannable(f"{found[0].reason}, which no break mends ({_line(found[0].frames)})")
            elif not self._cheaper():
                return
            self._rounds += 1
            if self._rounds > _MOST_ROUNDS:
                raise Unplannable(f"the breaks did not settle in {_MOST_ROUNDS} rounds")

    def widen(self, need: Need) -> None:
        """Raises Unplannable where the break is all of the step already."""
        before = (self.regions, self.handed)
        self._answer(need, self.regions)
        if before == (self.regions, self.handed):
            raise Unplannable(need.reason)

    def _logs(self) -> list[Log]:
        session = self._session
        self.start.put_back()
        session.channel.phase(f"look at segments, round {self._rounds + 1}")
        step = watched(session, self.regions, self.handed, self._table)
        session.seed(FIRST_SEED)
        session.step()
        logs = []
        for k in range(1, REPLAYS + 1):
            session.put_inputs(k)
            logs.append(step())
        return logs

    def _answer(self, need: Need, regions: Sequence[Region]) -> None:
        region = None if need.region is None else regions[need.region]
        if need.kind in ("private", "slot") and region is not None and need.name is not None:
            known = self._handed.get(region, Handed())
            if need.kind == "private":
                self._handed[region] = Handed(known.private | {need.name}, known.slots)
            else:
                self._handed[region] = Handed(known.private, tuple(dict.fromkeys((*known.slots, need.name))))
            return
        self.causes.append(Cause(need.code, need.reason, need.frames, derived=True))
        if region is None:
            self._add(need.frames, need.reason, block=need.kind == "block")
            return
        function = function_with(region)
        grown: Region | None = None
        if need.kind == "defined" and need.name is not None:
            grown = function.defined(region, need.name)
        elif need.kind == "used" and need.name is not None:
            grown = function.used(region, need.name)
        elif need.kind == "around":
            grown = function.around(region)
        legal = None if grown is None else function.legal(grown)
        if legal is None or legal == region:
            self._add(need.frames[:-1], need.reason)
        else:
            self._take(legal)

    def _close(self, error: Uncuttable) -> None:
        """The code of a function cannot be changed (it is made anew in every step): the calls of it run eagerly."""
        function = function_with(error.region)
        if function in self._closed:
            raise Unplannable(str(error))
        self._closed.add(function)
        self.regions = tuple(region for region in self.regions if function_with(region) is not function)
        for cause in self.causes:
            if any(function_of(frame) is function for frame in cause.frames):
                self._add(cause.frames, cause.reason, block=cause.guarded)

    def _add(self, frames: Sequence[CallSite], reason: str, block: bool = False) -> None:
        found = region_of(frames, self._closed)
        if found is None:
            raise Unplannable(f"{reason}, and no statement of the step can be cut out for it")
        region, _ = found
        if block:
            function = function_with(region)
            around = function.around(region)
            region = (None if around is None else function.legal(around)) or region
        self._take(region)

    def _take(self, region: Region) -> None:
        self.regions = merged((*self.regions, region))

    def _cheaper(self) -> bool:
        """Whether a wider break costs less, or as much with fewer pieces; it is taken."""
        found = [
            (cost_of(self.log, region), region.last - region.first, region) for region in wider(self.log, self.regions)
        ]
        if not found or min(found)[0] >= cost_of(self.log):
            return False
        self._take(min(found)[2])
        return True


def _holds(outer: Region, inner: Region) -> bool:
    same = (outer.path, outer.function, outer.line) == (inner.path, inner.function, inner.line)
    return same and outer.first <= inner.first and inner.last <= outer.last


def _line(frames: Sequence[CallSite]) -> str:
    from graphsafe.capture.lines.places import shown

    return f"{shown(frames[-1].path)}:{frames[-1].line}" if frames else "no line"
