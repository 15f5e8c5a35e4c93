"""Finds the breaks. The search starts with lines that are known to fail. The search widens the breaks until the code
between them does the same in several eager steps on new inputs."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from graphsafe.capture.child.session import FIRST_SEED, REPLAYS, Session
from graphsafe.capture.child.state import Snapshot
from graphsafe.capture.plan.child.call import BreakValues
from graphsafe.capture.plan.child.causes import Cause
from graphsafe.capture.plan.child.cost import cheaper, cost_of
from graphsafe.capture.plan.child.freezes import Need, needs
from graphsafe.capture.plan.child.rewrite import Uncuttable
from graphsafe.capture.plan.child.split import Split
from graphsafe.capture.plan.child.watch import Log, watched
from graphsafe.capture.plan.shared.passed import beyond, occurrences, receivers
from graphsafe.capture.plan.shared.regions import Function, Region, function_of, function_with, merged, region_of
from graphsafe.capture.shared.places import line_text
from graphsafe.optable import OpTable
from graphsafe.report.model import CallSite

_MOST_ROUNDS = 24


class Unplannable(Exception):
    """Raised if no plan is possible. The message is one sentence."""


@dataclass
class Search:
    """The search for breaks. `find()` finds the breaks, and `widen(...)` adds a need that a replay has shown."""

    session: Session
    start: Snapshot
    "The state from which each check of the segments starts."
    table: OpTable
    assigned: Mapping[str, tuple[CallSite, ...]]
    split: Split
    regions: tuple[Region, ...] = ()
    causes: list[Cause] = field(default_factory=list)
    parts: list[tuple[Region, frozenset[CallSite]]] = field(default_factory=list)
    "Each region that had to run eagerly, with the lines to blame for it."
    log: Log = field(default_factory=Log)
    "The log of an eager step with these breaks. If several steps were logged, this is the log with the most launches."
    coverages: dict[tuple[Region, ...], float] = field(default_factory=dict)
    "Breaks -> the coverage of the plan with these breaks. The mapping contains only plans whose coverage was computed."
    _handed: dict[Region, BreakValues] = field(default_factory=dict)
    _bare: list[Log] = field(default_factory=list)
    "The logs of the same steps without any break."
    _at: int = 0
    "The index in `_bare` of the step whose log is `log`."
    _kept_back: set[Region] = field(default_factory=set)
    "Breaks whose results captured code uses."
    _closed: set[Function] = field(default_factory=set)
    "Functions whose code cannot be changed."
    _rounds: int = 0

    @property
    def handed(self) -> tuple[BreakValues, ...]:
        """For each region, the values that it and all regions inside it pass on."""
        return tuple(
            BreakValues(beyond=names).with_parts(one for part, one in self._handed.items() if _holds(region, part))
            for region, names in zip(self.regions, beyond(self.regions), strict=True)
        )

    def blame(self, causes: Sequence[Cause]) -> None:
        """Make the line of each cause run eagerly. Raises TargetError, and Unplannable if a line cannot be cut out."""
        self._bare = self._logs()
        for cause in self.split.moved(causes, self._running()):
            self.causes.append(cause)
            self._add(cause.frames, cause.reason, self._to_blame(cause), block=cause.guarded)

    def _to_blame(self, cause: Cause) -> frozenset[CallSite]:
        """Return the cause's own line. If the cause was derived from other causes, return the lines of those causes. If
        some of these lines are in the cause's function, return only these."""
        if not cause.derived:
            return frozenset([cause.line])
        roots = [one.line for one in self.causes if not one.derived]
        near = [line for line in roots if (line.path, line.function) == (cause.line.path, cause.line.function)]
        return frozenset(near or roots)

    @property
    def bare(self) -> Log:
        """The log of the same step as `log`, without any break."""
        return self._bare[self._at]

    def _running(self) -> list[tuple[CallSite, ...]]:
        """Return the frames of the operations in the steps without any break."""
        return [op.frames for log in self._bare for op in log.ops]

    def roots(self, region: Region) -> frozenset[CallSite]:
        """Return the lines that are to blame for the region and for all regions that have become part of it."""
        return frozenset(line for part, lines in self.parts if _holds(region, part) for line in lines)

    def with_original_lines(self, cause: Cause) -> Cause:
        """Return the cause with the target's own lines."""
        return replace(cause, frames=self.split.original(cause.frames))

    def find(self) -> None:
        """Determine the breaks. Raises Unplannable and TargetError."""
        self.coverages = {}
        while True:
            try:
                logs = self._logs()
            except Uncuttable as error:
                self._close(error)
                continue
            self._at = max(range(len(logs)), key=lambda at: sum(op.launches for op in logs[at].ops))
            self.log = logs[self._at]
            found = needs(logs, self.handed, self.assigned)
            before = (self.regions, self.handed)
            if found:
                regions = self.regions
                for need in found:
                    self._answer(need, regions)
                if before == (self.regions, self.handed):
                    where = line_text(found[0].frames[-1]) if found[0].frames else "no line"
                    raise Unplannable(f"{found[0].reason}, which no break can avoid ({where})")
            elif not self._cheaper():
                return
            self._rounds += 1
            if self._rounds > _MOST_ROUNDS:
                raise Unplannable(f"the search for breaks did not converge in {_MOST_ROUNDS} rounds")

    def widen(self, need: Need) -> None:
        """Widen a break. Raises Unplannable if the break is already the whole step."""
        before = (self.regions, self.handed)
        self._answer(need, self.regions)
        if before == (self.regions, self.handed):
            raise Unplannable(need.reason)

    def _logs(self) -> list[Log]:
        session = self.session
        self.start.put_back()
        session.channel.phase(f"look at segments, round {self._rounds + 1}")
        session.seed(FIRST_SEED)
        session.step()
        logs = []
        for k in range(1, REPLAYS + 1):
            session.put_inputs(k)
            logs.append(watched(session, self.regions, self.handed, self.table))
        return logs

    def _answer(self, need: Need, regions: Sequence[Region]) -> None:
        region = None if need.region is None else regions[need.region]
        if need.kind in ("private", "slot") and region is not None and need.name is not None:
            private, slots = (frozenset([need.name]), ()) if need.kind == "private" else (frozenset(), (need.name,))
            self._hand(region, BreakValues(private, slots))
            return
        cause = Cause(need.code, need.reason, need.frames, derived=any(not one.derived for one in self.causes))
        self.causes.append(cause)
        if region is None:
            self._add(need.frames, need.reason, self._to_blame(cause), block=need.kind == "block")
            return
        roots = self.roots(region)
        function = function_with(region)
        if need.kind == "caller" and self._returned(region, need, cause, roots):
            return
        grown = _grown(function, region, need)
        legal = None if grown is None else function.legal(grown)
        chosen: Sequence[Region] = () if legal is None or legal == region else (legal,)
        if need.kind in ("defined", "used") and need.name is not None:
            apart = [one for one in occurrences(function, need.name) if not _holds(region, one)]
            chosen = self._fewer(chosen, apart)
            if chosen is apart:
                self._follow(cause, need.frames[:-1], apart)
        if not chosen:
            self._add(need.frames[:-1], need.reason, roots)
        for one in chosen:
            self._take(one, roots)

    def _follow(self, cause: Cause, above: tuple[CallSite, ...], regions: Sequence[Region]) -> None:
        """Record a cause for each of these regions, which use the value of a break. `cause` is the cause of that break.
        The calls `above` lead to the regions."""
        lines = (CallSite(one.path, one.first, one.function) for one in regions)
        self.causes += [replace(cause, frames=(*above, line)) for line in lines]

    def _hand(self, region: Region, more: BreakValues) -> None:
        self._handed[region] = self._handed.get(region, BreakValues()).with_parts([more])

    def _returned(self, region: Region, need: Need, cause: Cause, roots: frozenset[CallSite]) -> bool:
        """Let other breaks receive this break's value, which is new in every step. Return whether that is possible."""
        returning = [one for one, held in self._handed.items() if held.returns and _holds(region, one)]
        found = receivers(need.frames, self._closed)
        if returning or found is None or region in self._kept_back:
            self._kept_back.add(region)
            self._handed |= {one: replace(self._handed[one], returns=False) for one in returning}
            return False
        self._hand(region, BreakValues(returns=True))
        for one in found:
            self._follow(replace(cause, reason=f"`{one.name}` changes"), one.frames, [one.region])
            self._hand(one.region, BreakValues(takes=frozenset([(one.name, one.line)])))
            self._take(one.region, roots)
        return True

    def _fewer(self, *options: Sequence[Region]) -> Sequence[Region]:
        """Return the option with fewer eager operations. The options are one wide break, and several breaks that pass a
        variable from one to the next."""
        return min(filter(None, options), key=lambda one: cost_of(self.log, merged(one)).eager, default=())

    def _close(self, error: Uncuttable) -> None:
        """If the code of a function cannot be changed because each step makes the function anew, make the calls of this
        function eager."""
        function = function_with(error.region)
        if function in self._closed:
            raise Unplannable(str(error))
        self._closed.add(function)
        self.regions = tuple(region for region in self.regions if function_with(region) is not function)
        self.parts = [part for part in self.parts if function_with(part[0]) is not function]
        calls = {
            frames[:at]
            for frames in set(self._running())
            for at, frame in enumerate(frames)
            if function_of(frame) is function
        }
        for cause in self.causes:
            if any(function_of(frame) is function for frame in cause.frames):
                for frames in (cause.frames, *calls):
                    self._add(frames, cause.reason, self._to_blame(cause), block=cause.guarded)

    def _add(self, frames: Sequence[CallSite], reason: str, roots: frozenset[CallSite], block: bool = False) -> None:
        region = region_of(frames, self._closed)
        if region is None:
            raise Unplannable(f"{reason}, and no statement of the step can be cut out for it")
        if block:
            function = function_with(region)
            around = function.around(region)
            region = (None if around is None else function.legal(around)) or region
        self._take(region, roots)

    def _take(self, region: Region, roots: frozenset[CallSite]) -> None:
        self.regions = merged((*self.regions, region))
        self.parts.append((region, roots))

    def _cheaper(self) -> bool:
        """Choose wider breaks if they cost less. Return whether any were chosen."""
        chosen = cheaper(self.log, self.regions)
        self.regions = functools.reduce(lambda regions, one: merged((*regions, one)), chosen, self.regions)
        return bool(chosen)


def _grown(function: Function, region: Region, need: Need) -> Region | None:
    if need.kind == "around":
        return function.around(region)
    if need.name is not None and (need.kind == "defined" or need.kind == "used"):
        return function.grown(region, need.name, need.kind)
    return None


def _holds(outer: Region, inner: Region) -> bool:
    same = function_with(outer) is function_with(inner)
    return same and outer.first <= inner.first and inner.last <= outer.last
