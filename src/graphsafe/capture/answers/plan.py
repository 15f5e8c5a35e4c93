"""Answers of the children that plan a step, and check the code of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphsafe.report.model import CallSite, Span


@dataclass(frozen=True, slots=True)
class Planned:
    """The parts of a plan that were made so far, with the keys of a report's plan."""

    plan: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SegmentFailure:
    """Why a segment of a plan cannot be captured."""

    message: str
    frames: tuple[CallSite, ...] = ()
    span: Span | None = None
    "The part of the statement that failed, where it was taken apart."
    whole: bool = False
    "Whether the statement failed before, and so must not be taken apart."


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
