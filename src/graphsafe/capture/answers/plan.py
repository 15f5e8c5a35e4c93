"""Answers of the children that plan a step and check a plan's code."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from graphsafe.report.model import Plan
from graphsafe.report.probes.probe import Error


@dataclass(frozen=True, slots=True)
class Planned:
    """The part of a plan that has been made so far."""

    plan: Plan = field(default_factory=Plan)
    too_short: int = 0
    "Number of operations that run eagerly only because a graph of their short segment would cost more than it saves."

    def because(self, reason: str | None) -> Planned:
        """Return the same plan with the reason why it is not verified."""
        return replace(self, plan=replace(self.plan, reason=reason))


@dataclass(frozen=True, slots=True)
class SegmentFailure(Error):
    """The reason why a segment of a plan cannot be captured. `span` is the part of the statement that failed, if the
    statement was split into parts."""

    whole: bool = False
    "Whether the statement failed as a whole, before its parts were tried. Such a statement must not be split."


@dataclass(frozen=True, slots=True)
class Learned:
    """The failures that earlier children found, for the next child."""

    failures: tuple[SegmentFailure, ...] = ()


@dataclass(frozen=True, slots=True)
class Emitted:
    """The code that applies a plan, or the reason why there is none."""

    text: str | None = None
    why_not: str | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """The reason why results of the emitted code differ from those of eager steps; None if they do not differ."""

    reason: str | None
