"""The plan as the planning child reports it: its pieces in order, modules, times, and the gain of each fix."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from graphsafe.capture.answers.plan import Planned
from graphsafe.capture.child.probes.measure import eager_times, interleaved_times, times_of
from graphsafe.capture.child.session import Session
from graphsafe.capture.child.state import Snapshot
from graphsafe.capture.plan.child.causes import Cause
from graphsafe.capture.plan.child.cost import Groups, cheaper, in_region, with_breaks
from graphsafe.capture.plan.child.runtime import Graph, PlannedRecording
from graphsafe.capture.plan.child.search import Search
from graphsafe.capture.plan.child.values import TENSOR
from graphsafe.capture.plan.child.watch import Log
from graphsafe.capture.plan.shared.regions import Region, function_with, merged
from graphsafe.capture.shared.places import line_text, location
from graphsafe.report.model import CallSite, Fix, Plan, PlannedModule, Segment
from graphsafe.report.text import count

_MOST_OPERATIONS = 1000
"""Cheaper, wider breaks are searched for only if a step has at most this many operations. In a larger step a piece is
only a small share of the work, and the search would take seconds."""


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds of an eager step, of the planned step, and of each of the planned step's pieces."""

    eager: float | None = None
    planned: float | None = None
    pieces: tuple[float | None, ...] = ()


def planned(search: Search, recording: PlannedRecording | None, times: Times | None = None) -> Planned:
    """Return the plan, which is not yet verified. `recording` is None if nothing was captured."""
    log = search.log
    total = sum(op.launches for op in log.ops)
    captured = sum(op.launches and op.visit is None for op in log.ops)
    coverage = captured / total if total else 0.0
    times = times or Times()
    segments = _segments(search, recording, times.pieces)
    took = times.planned
    graphs = [segment.ms for segment in segments if segment.kind == "graph"]
    a_captured = sum(ms or 0.0 for ms in graphs) / captured if captured and None not in graphs else None
    plan = Plan(
        coverage=coverage,
        operations=total,
        eager_ms=times.eager,
        planned_ms=took,
        ideal_ms=None if took is None or a_captured is None else min(took, a_captured * total),
        pool_bytes=None if recording is None else recording.pool_bytes(),
        segments=segments,
        modules=_modules(log),
        fixes=_fixes(search, coverage, _linear(captured, total, segments, took, a_captured)),
        guards=_guards(search),
    )
    return Planned(plan, _too_short(search))


def _linear(
    captured: int, total: int, segments: Sequence[Segment], took: float | None, a_captured: float | None
) -> Callable[[float], float | None]:
    """Return a function from coverage to milliseconds. The function assumes that every captured operation takes the
    same time."""
    if took is None or a_captured is None or captured == total:
        return lambda coverage: None
    an_eager = sum(one.ms or 0.0 for one in segments if one.kind == "eager") / (total - captured)
    return lambda coverage: max(
        took - (coverage * total - captured) * max(an_eager - a_captured, 0.0), a_captured * total
    )


def timed(session: Session, search: Search, recording: PlannedRecording | None = None) -> Times:
    """Time an eager step, the planned step and its pieces, alone on the device. Raises GuardBroken and TargetError."""
    session.channel.wait_to_be_alone()
    session.channel.phase("time eager steps")
    eager = eager_times(session, search.start).median
    if recording is None:
        return Times(eager)
    session.channel.phase("time the plan")
    search.start.put_back()
    recording.settle()
    state = Snapshot(session.device, session.subject)
    took = times_of(session, recording.replay, state).median
    pieces = interleaved_times(session, [item.replay for item in recording.items], state)
    return Times(eager, took, tuple(times.median for times in pieces))


def _segments(search: Search, recording: PlannedRecording | None, times: Sequence[float | None]) -> tuple[Segment, ...]:
    log = search.log
    found: list[Segment] = []
    pieces = itertools.groupby(
        ((group, op) for group, op in Groups(log).of(()) if op is None or op.launches), key=lambda pair: pair[0]
    )
    for group, pairs in pieces:
        ops = [op for _, op in pairs if op is not None]
        number = log.visits[int(str(group[1]))].number if group else None
        region = None if number is None else search.regions[number]
        causes = [] if region is None else [search.with_original_lines(cause) for cause in causes_in(search, region)]
        found.append(
            Segment(
                kind="eager" if group else "graph",
                operations=len(ops),
                module=_common([op.module for op in ops]),
                code=causes[0].code if causes else None,
                location=None if region is None else search.split.location(region),
                reason=_reason(causes) if causes else None,
            )
        )
    items = () if recording is None else recording.items
    if [isinstance(item, Graph) for item in items] != [one.kind == "graph" for one in found]:
        return tuple(found)
    return tuple(
        replace(one, ms=taken, kernels=item.nodes if isinstance(item, Graph) else None)
        for one, item, taken in itertools.zip_longest(found, items, times)
    )


def _reason(causes: Sequence[Cause]) -> str:
    lines = dict.fromkeys(cause.line for cause in causes if not cause.derived)
    places = list(dict.fromkeys(map(line_text, lines)))
    more = f" and {count(len(places) - 1, 'other line')}" if len(places) > 1 else ""
    return f"{causes[0].reason} ({line_text(causes[0].line)}){more}"


def causes_in(search: Search, region: Region) -> list[Cause]:
    """Return the first cause of each line in the region. If the region has no causes, return the causes outside of it
    that led to the region."""
    found: dict[Any, Cause] = {}
    for cause in search.causes:
        if any(in_region(frame, region) for frame in cause.frames):
            found.setdefault(cause.line, cause)
    roots = () if found else search.roots(region)
    found |= {cause.line: cause for cause in reversed(search.causes) if cause.line in roots and not cause.derived}
    return sorted(found.values(), key=lambda cause: cause.derived)


def _common(names: Sequence[str]) -> str | None:
    """Return the innermost module that contains all of these modules."""
    levels = zip(*(name.split(".") for name in names), strict=False)
    shared = [one[0] for one in itertools.takewhile(lambda level: len(set(level)) == 1, levels)]
    return ".".join(shared) if names else None


def _modules(log: Log) -> tuple[PlannedModule, ...]:
    """Return each module with two numbers: the operations in the module and its submodules, and how many of these are
    captured."""
    counts: dict[str, list[int]] = {}
    for op in log.ops:
        if not op.launches:
            continue
        parts = op.module.split(".") if op.module else []
        for length in range(len(parts) + 1):
            both = counts.setdefault(".".join(parts[:length]), [0, 0])
            both[0] += 1
            both[1] += op.visit is None
    return tuple(
        PlannedModule(name, "captured" if captured == total else "mixed" if captured else "eager", total, captured)
        for name, (total, captured) in counts.items()
    )


def _guards(search: Search) -> tuple[str, ...]:
    """Return the guards: conditions of the capture that must still hold when the plan is used."""
    found: dict[str, None] = {"shapes, dtypes and places of the step's inputs": None}
    handed = search.handed
    for visit in search.log.visits:
        region = search.regions[visit.number]
        for name, flow in visit.left.items():
            if flow.hosts == "unbound" or (name == "return" and handed[visit.number].returns):
                continue  # with `returns`, each step may return another value
            kept = [text for _, text in flow.hosts if text not in (TENSOR, "NoneType None") and type(text) is str]
            if kept:
                text = (
                    "the return value" if name == "return" else f"`{search.split.named(function_with(region), name)}`"
                )
                found[f"{text} of {region.function} stays {kept[0] if len(kept) == 1 else 'as it is'}"] = None
    return tuple(found)


def _fixes(search: Search, planned: float, milliseconds: Callable[[float], float | None]) -> tuple[Fix, ...]:
    """Return the lines to blame, the largest gain first. Lines that make work eager come before all others. `planned`
    is the plan's coverage. The gain of a fix, alone and together with the fixes before it, is computed from a step's
    operations. Nothing is run."""
    roots: dict[CallSite, dict[CallSite, Cause]] = {}
    "Line of the target -> its causes. The key of each cause is the line in the file whose statements are split."
    for cause in search.causes:
        if not cause.derived:
            roots.setdefault(search.with_original_lines(cause).line, {}).setdefault(cause.line, cause)
    nothing = _coverage(search, set())

    def coverage(lines: Iterable[CallSite]) -> float:
        found = _coverage(search, {part for line in lines for part in roots[line]})
        return found if found > nothing else planned

    alone = {line: coverage([line]) for line in roots}
    needed = _needed(search)
    order = sorted(roots, key=lambda line: (not needed & roots[line].keys(), -alone[line]))
    found = []
    for at, line in enumerate(order, 1):
        cause = next(iter(roots[line].values()))
        together = alone[line] if at == 1 else coverage(order[:at])
        found.append(Fix(cause.code, location(line, None), alone[line], together, milliseconds(alone[line])))
    return tuple(found)


def _too_short(search: Search) -> int:
    """Return the number of operations that run eagerly only because a graph of their piece would cost more than it
    saves."""
    apart = with_breaks(search.bare, merged([region for region, _ in search.parts]))
    logs = (apart, search.log)
    could, can = (sum(op.visit is None for op in log.ops if op.launches) for log in logs)
    return max(could - can, 0)


def _needed(search: Search) -> set[CallSite]:
    """Return the lines to blame for breaks in which operations run."""
    found: set[CallSite] = set()
    for region, roots in search.parts:
        if any(op.launches and op.visit is not None for op in with_breaks(search.bare, [region]).ops):
            found |= roots
    return found


def _coverage(search: Search, mended: Set[CallSite]) -> float:
    """Return the coverage of the plan if the lines `mended` are fixed and only the other lines are to blame."""
    regions = merged([region for region, roots in search.parts if not roots <= mended])
    if regions not in search.coverages:
        search.coverages[regions] = _joined(search, regions)
    return search.coverages[regions]


def _joined(search: Search, regions: tuple[Region, ...]) -> float:
    """Return the coverage with these breaks, after they are widened wherever that costs less."""
    log = with_breaks(search.bare, regions)
    total = sum(op.launches for op in log.ops)
    while total <= _MOST_OPERATIONS:
        joined = cheaper(log, regions)
        if not joined:
            break
        regions = merged([*regions, *joined])
        log = with_breaks(log, regions)
    return sum(op.launches and op.visit is None for op in log.ops) / total if total else 0.0
