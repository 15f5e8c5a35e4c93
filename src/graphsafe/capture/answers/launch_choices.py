"""Launch choices that a graph froze, and what they cost after an event."""

from __future__ import annotations

from dataclasses import dataclass

from graphsafe.report.probes.twin import Cause, Difference


@dataclass(frozen=True, slots=True)
class LaunchChoice:
    """A launch that a capture after an event chooses otherwise, while the replays before and after it are right."""

    event: str
    difference: Difference
    causes: tuple[Cause, ...]
    "The host values by which the step chose, as far as trials found them."
    frozen_ms: float | None
    "Milliseconds of a replay after the event; None if the device has no clock."
    fresh_ms: float | None
    "Milliseconds of a replay of a graph that was captured after the event."


@dataclass(frozen=True, slots=True)
class LaunchChoices:
    """The launch choices that were found so far."""

    choices: tuple[LaunchChoice, ...] = ()
