"""Answers of children, other than the probes of a report. These answers describe the reference, an eager step, a
capture, the replays and events after it, and the target's own graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from graphsafe.capture.answers.events import Asked, StepEvent
from graphsafe.capture.shared.collectives import Call
from graphsafe.report.model import CallSite, Span
from graphsafe.report.probes.memory import Growth, Held
from graphsafe.report.probes.probe import Error
from graphsafe.report.probes.replay import Check
from graphsafe.report.probes.twin import Cause, Difference


@dataclass(frozen=True, slots=True)
class Reference:
    """The eager steps of a separate build of the target. Replays are compared with these steps."""

    varied: int | None = None
    "Number of steps in which new inputs changed outputs or state."
    lazy: tuple[str, ...] = ()
    "The state that step 1 fills with values that depend on the inputs of step 1."
    lazy_caches: tuple[str, ...] = ()
    asked: tuple[Asked, ...] = ()
    "The places where the step asks whether a capture is under way."
    checks: tuple[Check, ...] = ()
    "Checks that compare two paths of the step: the path during a capture, and the path of eager steps."
    refused: str | None = None
    "The reason why the step cannot be run eagerly along the path that it takes during a capture."
    host_counts: tuple[str, ...] = ()
    "Counts in the state: tensors that only the host increments. Comparisons of replays leave these tensors out."
    event_failed: str | None = None
    "The name of the event that failed, with the error. The eager step after the event may have failed instead."
    first_step_failed: str | None = None
    "The reason why the refresh cannot be called before the first step."
    not_put_back: tuple[str, ...] = ()
    "The reasons why some containers were not put back before further runs."
    events: int = 0
    "The number of steps after events. Each event happens more than once."

    @property
    def differs(self) -> bool:
        """Whether the step computes different results during a capture and in an eager run."""
        return any(check.result == "different" for check in self.checks)


@dataclass(frozen=True, slots=True)
class SeenEvent(StepEvent):
    """All events of one kind, operation and place; `nbytes` is the sum of their bytes."""

    count: int = 1
    first_only: bool = False
    "Whether the events happened only in step 1."
    guarded: bool = False
    "Whether a step leaves the events out when it is told that a capture is under way."


@dataclass(frozen=True, slots=True)
class Watched:
    """The events of one watched step."""

    events: tuple[SeenEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class HostCall:
    """A call whose result changes from call to call, such as a read of a clock or a draw of a random number."""

    kind: Literal["clock", "random"]
    function: str
    frames: tuple[CallSite, ...]
    span: Span | None


@dataclass(frozen=True, slots=True)
class Ran:
    """The lines that some steps ran, and calls on these lines that are not device operations."""

    lines: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    "File -> the lines of the file that ran."
    host_calls: tuple[HostCall, ...] = ()
    never_waited: tuple[Call, ...] = ()
    "Asynchronous collectives whose result is never waited for."
    marks: tuple[CallSite, ...] = ()
    "Functions that ran and that the target has marked to run eagerly between graphs."


@dataclass(frozen=True, slots=True)
class StateWrite:
    """The state on the device that one line of the step writes. If several lines write it, this is the last of them."""

    frames: tuple[CallSite, ...]
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StateWrites:
    """The lines that write state in one step, and the state that this step does not read."""

    lines: tuple[StateWrite, ...] = ()
    unread: tuple[str, ...] = ()
    """Tensors on the device that existed before the step, and that the step does not use. If a refresh runs between
    the steps, gradients are here only if the step changes their parameters: such a step drops the old gradients and
    makes new ones."""

    @staticmethod
    def of(frames_of: Mapping[str, tuple[CallSite, ...]], unread: Iterable[str] = ()) -> StateWrites:
        """`frames_of` maps each piece of state to the frames of the line that writes it."""
        found: dict[tuple[CallSite, ...], list[str]] = {}
        for path, frames in frames_of.items():
            found.setdefault(frames, []).append(path)
        lines = tuple(StateWrite(frames, tuple(paths)) for frames, paths in found.items())
        return StateWrites(lines, tuple(unread))

    def line_of(self, paths: Sequence[str]) -> tuple[CallSite, ...]:
        """Return the frames of the line that writes all of this state; () if there is no single line."""
        found = {one.frames for one in self.lines if not set(paths).isdisjoint(one.paths)}
        known = {path for one in self.lines for path in one.paths}
        return found.pop() if len(found) == 1 and known.issuperset(paths) else ()


@dataclass(frozen=True, slots=True)
class StepMemory:
    """The device memory that a step takes."""

    step: Held | None = None
    pool: Held | None = None
    "The memory of an eager step that takes the code path of a capture; None if the device can read a graph's own pool."
    failed: str | None = None
    "The reason why the step could not be run again."


@dataclass(frozen=True, slots=True)
class EscapedWork:
    """The step's device work that was not captured, although the capture succeeded."""

    operations: tuple[StepEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class Fired:
    """An event that happened between replays, and the checks that compare the next replay with an eager step."""

    name: str
    place: CallSite | None
    "The place where the event is written; None if its code is not the user's, as for `gc.collect`."
    moved: tuple[str, ...]
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class FiredEvents:
    """The events that have happened so far."""

    events: tuple[Fired, ...] = ()


@dataclass(frozen=True, slots=True)
class TakenPath:
    """A path of operations that the eager steps of compared rounds took."""

    path: str
    is_exact: bool
    "Whether all results of these rounds equal those of replays bit for bit."
    is_shown: bool
    """Whether these rounds test the operations in which this path differs from the usual path: a small error in these
    operations would change the results of at least one round."""


@dataclass(frozen=True, slots=True)
class ComparedRounds:
    """Rounds of a program. In each round the refresh is called, and a replay is compared with an eager step."""

    number: int = 0
    varied: int = 0
    """The number of rounds whose eager outputs differ from those of the first round because of the refresh. If steps
    change state, continued rounds (those that begin with the state of the round before) are left out."""
    is_faithful: bool = False
    "Whether, at the beginning of each round, all earlier writes of the refresh were still in place."
    checks: tuple[Check, ...] = ()
    doubt: str | None = None
    "The reason why differences in some results prove nothing; None if there is no such reason."
    error: Error | None = None
    "The error of a round that failed after a replay, although the same round succeeds after an eager step."
    paths: tuple[TakenPath, ...] = ()
    "The paths of the eager steps, if they were watched."
    late: tuple[Check, ...] = ()
    "Checks of the rounds in which the device ran behind the host."
    moved: tuple[str, ...] = ()
    "The state that had moved to other memory before the first round whose results differ."
    moved_by: tuple[tuple[CallSite, ...], ...] = ()
    "For each entry of `moved`, the frames of the line in the refresh that moves it."
    after: tuple[Fired, ...] = ()
    "The event that happened shortly before the first round whose results differ."
    freed: bool = False
    "Whether freed memory was overwritten right before the first round whose results differ."
    refresh: CallSite | None = None
    "The place where the refresh is written."


@dataclass(frozen=True, slots=True)
class LaunchChoice:
    """A kernel launch for which a new capture after an event would make another choice. Replays of the old graph stay
    correct."""

    event: str
    difference: Difference
    causes: tuple[Cause, ...]
    "The host values on which the step's choice depends, as far as trials have found them."
    frozen_ms: float | None
    "Milliseconds of one replay after the event; None if the device has no clock."
    fresh_ms: float | None
    "Milliseconds of one replay of a graph that was captured after the event."


@dataclass(frozen=True, slots=True)
class LaunchChoices:
    """The launch choices that have been found so far."""

    choices: tuple[LaunchChoice, ...] = ()


@dataclass(frozen=True, slots=True)
class Point:
    """Memory and time after a number of replays. None stands for an unknown value."""

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
    "The growth that the replays caused, without the measured numbers, which are in `points`."
    points: tuple[Point, ...]
    refresh: CallSite | None


@dataclass(frozen=True, slots=True)
class Missing:
    """A break that the step needs between graphs, but for which the target has no mark."""

    code: str
    reason: str
    frames: tuple[CallSite, ...]


@dataclass(frozen=True, slots=True)
class Marks:
    """A plan's judgement of the target's marks: missing breaks, and functions that need not be marked."""

    missing: tuple[Missing, ...] = ()
    needless: tuple[CallSite, ...] = ()


@dataclass(frozen=True, slots=True)
class Given:
    """Steps of the target with its own graphs, compared with the reference child's steps."""

    reason: str | None = None
    "The reason why the results differ from those of eager steps."
    different: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnGraphs:
    """The CUDA graphs that the target makes itself."""

    replays: tuple[tuple[CallSite, ...], ...] = ()
    "Call stacks of the target's own replays."
    compiled: bool = False
    "Whether Inductor makes the target's graphs. The value is also true if Inductor skipped these graphs in this run."
