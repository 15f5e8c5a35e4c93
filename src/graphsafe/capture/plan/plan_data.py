"""What the planning child tells of a plan: its pieces in order, modules, times, and what each fix would gain."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from graphsafe.capture.plan.causes import Cause
from graphsafe.capture.plan.cost import grouped, in_region
from graphsafe.capture.plan.regions import Region, function_with, merged, region_of
from graphsafe.capture.plan.runtime import Graph
from graphsafe.capture.probes.timing import eager_ms, in_turn_ms, ms
from graphsafe.capture.state import Snapshot

if TYPE_CHECKING:
    from graphsafe.capture.plan.runtime import PlannedRecording
    from graphsafe.capture.plan.search import Search
    from graphsafe.capture.plan.watch import Log, Op
    from graphsafe.capture.session import Session

Data = dict[str, Any]


def planned(search: Search, recording: PlannedRecording | None, times: Data | None = None) -> Data:
    """`recording`: None where nothing was captured."""
    log = search.log
    total = sum(op.launches for op in log.ops)
    captured = sum(op.launches and op.visit is None for op in log.ops)
    times = times or {}
    segments = _segments(search, recording, times.get("pieces") or ())
    eager, took = times.get("eager_ms"), times.get("planned_ms")
    graphs_ms = [segment["ms"] for segment in segments if segment["kind"] == "graph"]
    a_captured = sum(graphs_ms) / captured if captured and None not in graphs_ms else None
    ideal = None if took is None or a_captured is None else min(took, a_captured * total)
    return {
        "verified": False,
        "coverage": captured / total if total else 0.0,
        "operations": total,
        "eager_ms": eager,
        "planned_ms": took,
        "ideal_ms": ideal,
        "pool_bytes": None if recording is None else recording.pool_bytes(),
        "segments": segments,
        "modules": _modules(log),
        "fixes": _fixes(search, captured, total, segments, took, a_captured),
        "guards": _guards(search),
    }


def timed(session: Session, search: Search, recording: PlannedRecording | None = None) -> Data:
    """Milliseconds of an eager step, of the planned one, and of each of its pieces. The device is this process's alone
    from here on. Raises GuardBroken and TargetError."""
    session.channel.wait_to_be_alone()
    session.channel.phase("time eager steps")
    reported: Data = {"eager_ms": eager_ms(session, search.start)}
    if recording is not None:
        session.channel.phase("time the plan")
        search.start.put_back()
        recording.settle()
        state = Snapshot(session.device, session.subject)
        reported["planned_ms"] = ms(session, recording.replay, state)
        reported["pieces"] = in_turn_ms(session, [item.replay for item in recording.items], state)
    return reported


def _segments(search: Search, recording: PlannedRecording | None, times: Sequence[float | None]) -> list[Data]:
    log = search.log
    reported: list[Data] = []
    pieces = itertools.groupby(
        ((group, op) for group, op in grouped(log) if op is None or op.launches), key=lambda pair: pair[0]
    )
    for group, pairs in pieces:
        ops = [op for _, op in pairs if op is not None]
        number = log.visits[int(str(group[1]))].number if group else None
        region = None if number is None else search.regions[number]
        causes = [] if region is None else causes_in(search, region)
        reported.append(
            {
                "kind": "eager" if group else "graph",
                "operations": len(ops),
                "kernels": None,
                "ms": None,
                "module": _common([op.module for op in ops]),
                "region": None if region is None else asdict(region),
                "code": causes[0].code if causes else None,
                "reason": causes[0].reason if causes else None,
                "causes": [asdict(cause) for cause in causes],
            }
        )
    items = () if recording is None else recording.items
    if [isinstance(item, Graph) for item in items] == [one["kind"] == "graph" for one in reported]:
        for one, item, taken in itertools.zip_longest(reported, items, times):
            one["ms"] = taken
            if isinstance(item, Graph):
                one["kernels"] = item.nodes
    return reported


def causes_in(search: Search, region: Region) -> list[Cause]:
    """Those whose line, or a call on the way to it, lies in the region; what was told first of each line."""
    found: dict[Any, Cause] = {}
    for cause in search.causes:
        if any(in_region(frame, region) for frame in cause.frames):
            found.setdefault(cause.line, cause)
    return sorted(found.values(), key=lambda cause: cause.derived)


def _common(names: Sequence[str]) -> str | None:
    """The innermost module that holds all of them."""
    if not names:
        return None
    parts = [name.split(".") if name else [] for name in names]
    shared = [one[0] for one in itertools.takewhile(lambda level: len(set(level)) == 1, zip(*parts, strict=False))]
    return ".".join(shared)


def _modules(log: Log) -> list[Data]:
    """Every module in which something runs, with what runs in it, its own modules included."""
    counts: dict[str, list[int]] = {}
    for op in log.ops:
        if not op.launches:
            continue
        parts = op.module.split(".") if op.module else []
        for length in range(len(parts) + 1):
            count = counts.setdefault(".".join(parts[:length]), [0, 0])
            count[0] += 1
            count[1] += op.visit is None
    return [
        {"module": name, "state": _state(captured, total), "operations": total, "captured": captured}
        for name, (total, captured) in counts.items()
    ]


def _state(captured: int, total: int) -> str:
    return "captured" if captured == total else "mixed" if captured else "eager"


def _fixes(
    search: Search, captured: int, total: int, segments: Sequence[Data], took: float | None, a_captured: float | None
) -> list[Data]:
    """For each line that is to blame: what the plan would cover and take without it. Computed, not run."""
    found: list[Data] = []
    roots = [cause for cause in search.causes if not cause.derived]
    for cause in {cause.line: cause for cause in reversed(roots)}.values():
        freed = gain = 0.0
        for region in search.regions:
            if not any(in_region(frame, region) for frame in cause.frames):
                continue
            inside = [op for op in search.log.ops if op.launches and _in_visit_of(search, op, region)]
            others = [one for one in roots if one.line != cause.line]
            left = _shrunk(region, others)
            gone = sum(not any(in_region(frame, part) for frame in op.frames for part in left) for op in inside)
            spent = sum(one["ms"] or 0.0 for one in segments if one["region"] == asdict(region))
            freed += gone
            gain += spent * gone / len(inside) if inside else (spent if not left else 0.0)
        planned_ms = None
        if took is not None and a_captured is not None:
            planned_ms = max(took - gain + freed * a_captured, a_captured * total)
        coverage = (captured + freed) / total if total else 0.0
        found.append({"code": cause.code, "cause": asdict(cause), "coverage": coverage, "planned_ms": planned_ms})
    return sorted(found, key=lambda fix: -fix["coverage"])


def _in_visit_of(search: Search, op: Op, region: Region) -> bool:
    return op.visit is not None and search.regions[search.log.visits[op.visit].number] == region


def _shrunk(region: Region, causes: Sequence[Cause]) -> tuple[Region, ...]:
    """What of a region the other causes in it would still need."""
    function = function_with(region)
    parts: list[Region] = []
    for cause in causes:
        at = next((n for n, frame in enumerate(cause.frames) if in_region(frame, region)), None)
        found = None if at is None else region_of(cause.frames[: at + 1])
        if found is not None:
            parts.append(found[0])
    same = [part for part in parts if (part.path, part.line) == (region.path, region.line)]
    hull = same[:1]
    for part in same[1:]:
        hull = [function.hull(hull[0], part)]
    return merged(hull)


def _guards(search: Search) -> list[str]:
    """What must stay as it was at capture for the plan to hold."""
    found: dict[str, None] = {"shapes, dtypes and places of the step's inputs": None}
    for visit in search.log.visits:
        function = search.regions[visit.number].function
        for name, flow in visit.left.items():
            kept = [text for path, text in flow.hosts if text not in ("tensor", "NoneType None")] if flow.hosts else []
            if name != "return" and kept and flow.hosts != "unbound":
                found[f"`{name}` of {function} stays {kept[0] if len(kept) == 1 else 'as it is'}"] = None
    return list(found)
