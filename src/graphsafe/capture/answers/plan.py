"""Answers of the children that plan a step, and check the code of a plan."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from graphsafe.report.model import CallSite, Plan, Span


@dataclass(frozen=True, slots=True)
class Planned:
    """The parts of a plan that were made so far."""

    plan: Plan = field(default_factory=Plan)
    too_short: int = 0
    "Number of operations that run eagerly only because capturing their short segments would cost more than it saves."

    def because(self, reason: str | None) -> Planned:
        """Return the same plan with the reason why it is not verified."""
        return replace(self, plan=replace(self.plan, reason=reason))


@dataclass(frozen=True, slots=True)
class SegmentFailure:
    """Why a segment of a plan cannot be captured."""

    message: str
    frames: tuple[CallSite, ...] = ()
    span: Span | None = None
    "The part that failed, if the statement was split into parts."
    whole: bool = False
    "Whether the whole statement failed before its parts were tried, so that it must not be split."


@dataclass(frozen=True, slots=True)
class Learned:
    """The failures of earlier children, for the next one."""

    failures: tuple[SegmentFailure, ...] = ()


@dataclass(frozen=True, slots=True)
class Emitted:
    """The code that applies a plan, or why there is none."""

    text: str | None = None
    why_not: str | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """Why the results of emitted code differ from those of eager steps, or None."""

    reason: str | None
