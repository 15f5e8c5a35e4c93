"""The parent's side: children plan until a plan is verified or there is none, and the report is told of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from graphsafe.capture.lines.places import location, shown
from graphsafe.capture.plan.regions import Region, function_with
from graphsafe.report.model import Location
from graphsafe.report.source import file_line

Data = Mapping[str, Any]

KEYS = (
    "verified",
    "reason",
    "coverage",
    "operations",
    "eager_ms",
    "planned_ms",
    "ideal_ms",
    "pool_bytes",
    "segments",
    "modules",
    "fixes",
    "guards",
)


def learned(known: Sequence[Data], failure: Data) -> list[Data]:
    """The failures that the next child starts from: the same failure again is blamed one call further out."""
    frames = list(failure["frames"])
    while frames and any(one["frames"] == frames for one in known):
        frames.pop()
    return [*known, {"message": failure["message"], "frames": frames}]


def reported(reported: Data) -> dict[str, Any]:
    """What a planning child told, as the report has it."""
    plan: dict[str, Any] = {
        **dict.fromkeys(KEYS),
        "verified": False,
        "segments": [],
        "modules": [],
        "fixes": [],
        "guards": [],
    }
    plan |= {key: reported[key] for key in KEYS if key in reported}
    plan["segments"] = [_segment(segment) for segment in plan["segments"]]
    plan["fixes"] = [_fix(fix) for fix in plan["fixes"]]
    return plan


def whole(probes: Mapping[str, Data]) -> dict[str, Any]:
    """The plan of a step that is ready: one graph."""
    nodes = probes["capture"].get("nodes") or {}
    timing, memory = probes.get("timing") or {}, probes.get("memory") or {}
    took = timing.get("graph_ms")
    segment = {
        "kind": "graph",
        "operations": None,
        "kernels": sum(nodes.values()),
        "ms": took,
        "module": "",
        "location": None,
        "code": None,
        "reason": None,
    }
    plan: dict[str, Any] = {
        **dict.fromkeys(KEYS),
        "verified": True,
        "reason": "the step is ready: one graph",
        "coverage": 1.0,
    }
    plan |= {"eager_ms": timing.get("eager_ms"), "planned_ms": took, "ideal_ms": took, "segments": [segment]}
    plan |= {"pool_bytes": memory.get("pool_bytes"), "modules": [], "fixes": [], "guards": []}
    return plan


def _segment(segment: Data) -> dict[str, Any]:
    keys = ("kind", "operations", "kernels", "ms", "module", "code")
    region = segment["region"]
    cause = next(iter(segment["causes"]), None)
    where = "" if cause is None else f" ({_at(cause)})"
    reason = None if segment["reason"] is None else f"{segment['reason']}{where}"
    place = None if region is None else asdict(_lines(Region(**region)))
    return {**{key: segment[key] for key in keys}, "location": place, "reason": reason}


def _at(cause: Data) -> str:
    frame = cause["frames"][-1]
    return f"{shown(frame['path'])}:{frame['line']}"


def _fix(fix: Data) -> dict[str, Any]:
    place = asdict(location(fix["cause"]["frames"][-1], None))
    return {"code": fix["code"], "location": place, "coverage": fix["coverage"], "planned_ms": fix["planned_ms"]}


def _lines(region: Region) -> Location:
    function = function_with(region)
    place = function.place(region)
    last = place.statements[-1] if place is not None else function.node
    end = last.end_lineno or last.lineno
    text = file_line(region.path, region.first) or ""
    return Location(
        path=shown(region.path),
        line=region.first,
        column=len(text) - len(text.lstrip()) + 1,
        end_line=end,
        end_column=len((file_line(region.path, end) or "").rstrip()) + 1,
        function=region.function,
    )
