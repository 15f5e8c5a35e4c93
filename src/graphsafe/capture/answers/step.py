"""Answers of the step child beside its probes: the acts of an eager step, by line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from graphsafe.capture.answers.events import StepEvent
from graphsafe.capture.shared.collectives import Call
from graphsafe.report.model import CallSite, Span
from graphsafe.report.probes.memory import Held


@dataclass(frozen=True, slots=True)
class SeenEvent(StepEvent):
    """Events of one kind, operation and place; `nbytes` is their sum."""

    count: int = 1
    first_only: bool = False
    "Whether the events happened only in step 1."
    guarded: bool = False
    "Whether the step skips the events when told that a capture is under way."


@dataclass(frozen=True, slots=True)
class Watched:
    """The events of a watched step."""

    events: tuple[SeenEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class HostCall:
    """A call that gives another answer every time."""

    kind: Literal["clock", "random"]
    function: str
    frames: tuple[CallSite, ...]
    span: Span | None


@dataclass(frozen=True, slots=True)
class Ran:
    """The lines that some steps ran, and the calls on these lines that are not operations of the device."""

    lines: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    "File -> its lines that ran."
    host_calls: tuple[HostCall, ...] = ()
    never_waited: tuple[Call, ...] = ()
    "Asynchronous collectives that nobody waits for."
    marks: tuple[CallSite, ...] = ()
    "Functions that ran and that the target marks to run eagerly between graphs."


@dataclass(frozen=True, slots=True)
class StepMemory:
    """The device memory that a step takes."""

    step: Held | None = None
    pool: Held | None = None
    "The memory along the path of captures, if there is no graph whose pool can be read."
    failed: str | None = None
    "Why the step cannot be run once more."
