"""The failures from which the next planning child starts, and the plan of a step that needs no child."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from graphsafe.capture.answers.plan import SegmentFailure
from graphsafe.report.model import Plan, Segment
from graphsafe.report.probes import Probes


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


def whole(probes: Probes) -> Plan:
    """Return the plan of a step that is ready: one graph."""
    took = probes.timing.graph_ms
    kernels = sum((probes.capture.nodes or {}).values())
    return Plan(
        verified=True,
        reason="the step is ready: one graph",
        coverage=1.0,
        eager_ms=probes.timing.eager_ms,
        planned_ms=took,
        ideal_ms=took,
        pool_bytes=probes.memory.pool_bytes,
        segments=(Segment("graph", kernels=kernels, ms=took, module=""),),
    )
