"""Runs children until a plan is verified or proven impossible, and puts the answer into the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from graphsafe.capture.answers.plan import SegmentFailure
from graphsafe.report.probes import Probes

Data = Mapping[str, Any]

_NUMBERS = ("coverage", "operations", "eager_ms", "planned_ms", "ideal_ms", "pool_bytes")
_LISTS = ("segments", "modules", "fixes", "guards")


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


def reported(told: Data) -> dict[str, Any]:
    """Return a planning child's answer in the form of the report."""
    nothing: dict[str, Any] = {"verified": False, "reason": None, **dict.fromkeys(_NUMBERS)}
    nothing |= {name: [] for name in _LISTS}
    return nothing | {key: value for key, value in told.items() if key in nothing}


def whole(probes: Probes) -> dict[str, Any]:
    """Return the plan of a step that is ready: one graph."""
    took = probes.timing.graph_ms
    kernels = sum((probes.capture.nodes or {}).values())
    segment = {"kind": "graph", "operations": None, "kernels": kernels, "ms": took, "module": ""}
    plan = {
        "verified": True,
        "reason": "the step is ready: one graph",
        "coverage": 1.0,
        "eager_ms": probes.timing.eager_ms,
        "planned_ms": took,
        "ideal_ms": took,
        "pool_bytes": probes.memory.pool_bytes,
        "segments": [{**segment, "location": None, "code": None, "reason": None}],
    }
    return reported(plan)
