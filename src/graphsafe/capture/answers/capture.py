"""Answers of the capture child beside its probes, and of the children that follow it."""

from __future__ import annotations

from dataclasses import dataclass

from graphsafe.capture.answers.events import Diagnosis, StepEvent
from graphsafe.report.model import CallSite
from graphsafe.report.probes.replay import Check


@dataclass(frozen=True, slots=True)
class Refused:
    """The event that made the capture fail; None if the device cannot tell it without a second attempt."""

    event: StepEvent | None = None


@dataclass(frozen=True, slots=True)
class EscapedWork:
    """All device work of the step that ran beside the capture."""

    operations: tuple[StepEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """The line that made a capture fail, or None."""

    diagnosis: Diagnosis | None = None


@dataclass(frozen=True, slots=True)
class Fired:
    """An event that was fired between replays, and the replay after it compared with an eager step."""

    name: str
    place: CallSite | None
    "The event's own place; None if its code is not the user's, as in `gc.collect`."
    moved: tuple[str, ...]
    "State that was moved to other memory."
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class FiredEvents:
    """The events that were fired so far."""

    events: tuple[Fired, ...] = ()
