"""The answer of a long run of replays; the probe `memory` shows its growth."""

from __future__ import annotations

from dataclasses import dataclass

from graphsafe.report.model import CallSite
from graphsafe.report.probes.memory import Growth


@dataclass(frozen=True, slots=True)
class Point:
    """Bytes and milliseconds after a number of replays; None if they are unknown."""

    replay: int
    device_bytes: int | None
    pool_bytes: int | None
    host_bytes: int | None
    ms: float | None
    step_ms: float | None


@dataclass(frozen=True, slots=True)
class LongRun:
    """The measurements of a long run of replays."""

    growth: Growth
    "The effect of the replays, without what the points show."
    points: tuple[Point, ...]
    refresh: CallSite | None
    "Where the target's refresh is written."
