"""Answers of children other than their probes: about the reference, an eager step, a capture and what follows it, and
the target's own graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from graphsafe.capture.answers.events import Asked, Diagnosis, StepEvent
from graphsafe.capture.shared.collectives import Call
from graphsafe.report.model import CallSite, Span
from graphsafe.report.probes.memory import Growth, Held
from graphsafe.report.probes.probe import Error
from graphsafe.report.probes.replay import Check
from graphsafe.report.probes.twin import Cause, Difference


@dataclass(frozen=True, slots=True)
class Reference:
    """The eager steps of a separate build."""

    varied: int | None = None
    "The number of steps in which changed inputs changed outputs or state."
    lazy: tuple[str, ...] = ()
    "State that step 1 fills in and that depends on the inputs of step 1."
    lazy_caches: tuple[str, ...] = ()
    asked: tuple[Asked, ...] = ()
    "Where the step asks whether a capture is under way."
    checks: tuple[Check, ...] = ()
    "The path that the step takes while it is captured, compared with the path that eager steps take."
    refused: str | None = None
    "The reason why the step cannot be run eagerly along the path that it takes when it is captured."
    host_counts: tuple[str, ...] = ()
    "Tensors of the state that only the host increments; comparisons of replays leave them out."
    event_failed: str | None = None
    "The event that failed, or whose following eager step failed, and why."
    first_step_failed: str | None = None
    "The reason why the refresh cannot run before the first step."

    @property
    def differs(self) -> bool:
        """Whether the step computes something else while it is captured."""
        return any(check.result == "different" for check in self.checks)


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
    """The lines that some steps ran, and the calls on these lines that are no device operations."""

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
    "The memory of a step along the path of captures, for devices where no graph's pool can be read."
    failed: str | None = None
    "The reason why the step cannot be run once more."


@dataclass(frozen=True, slots=True)
class Refused:
    """The event that made the capture fail; None if the device needs a second attempt to find it."""

    event: StepEvent | None = None


@dataclass(frozen=True, slots=True)
class EscapedWork:
    """All device work of the step that ran outside the capture."""

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
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class FiredEvents:
    """The events that were fired so far."""

    events: tuple[Fired, ...] = ()


@dataclass(frozen=True, slots=True)
class ComparedRounds:
    """Rounds of the refresh, each with a replay that is compared with an eager step."""

    number: int = 0
    checks: tuple[Check, ...] = ()
    error: Error | None = None
    "The failure of a round that follows a replay, where the same round after an eager step succeeds."
    late: tuple[Check, ...] = ()
    "The checks of rounds in which the device was behind the host."
    moved: tuple[str, ...] = ()
    "State that had moved to other memory by the first round that differed."
    after: tuple[Fired, ...] = ()
    "The event that happened shortly before the first round that differed."
    refresh: CallSite | None = None
    "The place of the refresh."


@dataclass(frozen=True, slots=True)
class LaunchChoice:
    """A kernel launch that a new capture after an event chooses differently, although replays before and after the
    event are right."""

    event: str
    difference: Difference
    causes: tuple[Cause, ...]
    "The host values that decide the step's choice, as far as trials found them."
    frozen_ms: float | None
    "Milliseconds of a replay after the event; None if the device has no clock."
    fresh_ms: float | None
    "Milliseconds of a replay of a graph that was captured after the event."


@dataclass(frozen=True, slots=True)
class LaunchChoices:
    """The launch choices that were found so far."""

    choices: tuple[LaunchChoice, ...] = ()


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
    "The growth caused by the replays, besides the numbers in the points."
    points: tuple[Point, ...]
    refresh: CallSite | None


@dataclass(frozen=True, slots=True)
class Missing:
    """A break that the target's marks lack."""

    code: str
    reason: str
    frames: tuple[CallSite, ...]


@dataclass(frozen=True, slots=True)
class Marks:
    """The target's marks, judged by a plan: missing breaks, and functions that are marked without need."""

    missing: tuple[Missing, ...] = ()
    needless: tuple[CallSite, ...] = ()


@dataclass(frozen=True, slots=True)
class Given:
    """Steps of the target with its own graphs, compared with the reference."""

    reason: str | None = None
    "The reason why their results differ from those of eager steps."
    different: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnGraphs:
    """The CUDA graphs of the target itself."""

    replays: tuple[tuple[CallSite, ...], ...] = ()
    "The calls at which the target replays graphs."
    compiled: bool = False
    "Whether the target's graphs are Inductor's, even if Inductor skipped them."
