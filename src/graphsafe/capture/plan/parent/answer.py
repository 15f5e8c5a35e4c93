"""Runs children until a plan is verified or proven impossible, and puts the answer into the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from graphsafe.capture.answers.plan import SegmentFailure
from graphsafe.capture.shared.places import location, shown, site
from graphsafe.report.probes import Probes
from graphsafe.report.text import count

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


def learned(known: Sequence[SegmentFailure], failure: SegmentFailure) -> list[SegmentFailure]:
    """Return the failures that the next child starts from.

    A statement that fails again is no longer taken apart. If that does not help, the call around it is blamed, and so
    on.
    """
    frames = failure.frames
    while frames and any(one.whole and one.frames == frames for one in known):
        frames = frames[:-1]
    whole = frames != failure.frames or any(one.frames == frames for one in known)
    return [*known, replace(failure, frames=frames, span=None if whole else failure.span, whole=whole)]


def reported(reported: Data) -> dict[str, Any]:
    """Return a planning child's answer in the form of the report."""
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


def whole(probes: Probes) -> dict[str, Any]:
    """Return the plan of a step that is ready: one graph."""
    took = probes.timing.graph_ms
    segment = {
        "kind": "graph",
        "operations": None,
        "kernels": sum((probes.capture.nodes or {}).values()),
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
    plan |= {"eager_ms": probes.timing.eager_ms, "planned_ms": took, "ideal_ms": took, "segments": [segment]}
    plan |= {"pool_bytes": probes.memory.pool_bytes, "modules": [], "fixes": [], "guards": []}
    return plan


def _segment(segment: Data) -> dict[str, Any]:
    keys = ("kind", "operations", "kernels", "ms", "module", "code")
    roots = list(dict.fromkeys(_at(cause) for cause in segment["causes"] if not cause["derived"]))
    where = f" ({_at(segment['causes'][0])})" if segment["causes"] else ""
    more = f" and {count(len(roots) - 1, 'other line')}" if len(roots) > 1 else ""
    reason = None if segment["reason"] is None else f"{segment['reason']}{where}{more}"
    return {**{key: segment[key] for key in keys}, "location": segment["location"], "reason": reason}


def _at(cause: Data) -> str:
    frame = cause["frames"][-1]
    return f"{shown(frame['path'])}:{frame['line']}"


def _fix(fix: Data) -> dict[str, Any]:
    place = asdict(location(site(fix["cause"]["frames"][-1]), None))
    keys = ("coverage", "together", "planned_ms")
    return {"code": fix["code"], "location": place, **{key: fix[key] for key in keys}}
