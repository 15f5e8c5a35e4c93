"""Collects the reasons why a line has to run eagerly, from the answers of earlier children."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graphsafe.capture.answers.events import Diagnosis, StepEvent
from graphsafe.capture.answers.probes import EscapedWork, Ran, Reference, Watched
from graphsafe.capture.child.own_graphs.plain import Mark
from graphsafe.capture.shared.answers import Answers
from graphsafe.capture.shared.classify import CODE_OF_CAUSE, code_of
from graphsafe.capture.shared.places import is_within
from graphsafe.optable import OpTable
from graphsafe.report.model import CallSite, Span
from graphsafe.report.probes.capture import Capture
from graphsafe.report.probes.state import Change, State

_BREAKING = ("GS1", "GS2", "GS3", "GS5", "GS6")
HOST_STATE = ("host", "changes", "grows", "opaque")


@dataclass(frozen=True, slots=True)
class Cause:
    code: str
    reason: str
    frames: tuple[CallSite, ...]
    "The user's call stack at the line to blame, outermost first."
    derived: bool = False
    "Whether the cause follows from another cause: the line uses the result of a break."
    guarded: bool = False
    """Whether only some steps reach the line. If so, the line that decides whether a step reaches this line also runs
    eagerly."""
    span: Span | None = None
    "The expression on the line, if it is known."
    asked: bool = False
    "Whether the line tests the truth of the expression, which is a tensor."

    @property
    def line(self) -> CallSite:
        return self.frames[-1]


def known_causes(answers: Answers, ops: OpTable) -> list[Cause]:
    """Return the causes that are known before planning: those that the step child saw, the lines that fill state in
    step 1, and the failure of the plain capture."""
    found = [
        *_events(answers, ops),
        *_host_calls(answers),
        *_host_state(answers),
        *_filled(answers),
        *_failure(answers, ops),
    ]
    return list(dict.fromkeys(found))


def _events(answers: Answers, ops: OpTable) -> Iterator[Cause]:
    for event in answers[Watched].events:
        code = None if event.first_only or event.guarded else code_of(event, ops)
        if code is None or not code.startswith(_BREAKING) or not event.frames:
            continue
        yield Cause(code, f"{event.via or event.op}", event.frames, span=event.span, asked=_asks(event))


def _asks(event: StepEvent) -> bool:
    return event.via == "torch.Tensor.__bool__"


def _host_calls(answers: Answers) -> Iterator[Cause]:
    """Yield the calls of clocks and of the host's random generators. Their results may change a decision in a later
    step."""
    for call in answers[Ran].host_calls:
        code = "GS504" if call.kind == "random" else "GS702"
        yield Cause(code, f"{call.function} returns another value in each step", call.frames, span=call.span)


def _host_state(answers: Answers) -> Iterator[Cause]:
    for change in changed_state(answers):
        if change.how in HOST_STATE and change.frames:
            code = "GS402" if change.how == "grows" else "GS702"
            yield Cause(code, f"`{change.name}` changes in every step", change.frames)


def _filled(answers: Answers) -> Iterator[Cause]:
    changed = changed_state(answers)
    growing = [change.name for change in changed if change.how == "grows"]
    # A list that grows in every step also gets its first element in step 1. Later steps do not depend on this first
    # element.
    lazy = [path for path in answers[Reference].lazy if not any(is_within(path, name) for name in growing)]
    for change in changed:
        name = change.name
        if change.how == "born" and change.frames and any(is_within(path, name) for path in lazy):
            yield Cause("GS701", f"`{name}` is initialized by the first step", change.frames, guarded=True)


def rebindings(answers: Answers) -> dict[str, tuple[CallSite, ...]]:
    """Return the state that every step binds to a new tensor, each path with the line that binds it."""
    return {change.name: change.frames for change in changed_state(answers) if change.how == "rebound"}


def changed_state(answers: Answers) -> tuple[Change, ...]:
    return answers[State].changed or ()


def _failure(answers: Answers, ops: OpTable) -> Iterator[Cause]:
    error, diagnosis = answers[Capture].first_error, answers.get(Diagnosis)
    if diagnosis is not None and diagnosis.event.frames:
        event = diagnosis.event
        reason = event.op if error is None else error.message or event.op
        code = CODE_OF_CAUSE.get(diagnosis.cause) or code_of(event, ops) or "GS607"
        yield Cause(code, reason, event.frames, span=event.span, asked=_asks(event))
    elif error is not None and error.frames:
        yield Cause("GS607", error.message, error.frames)
    for escaped in answers[EscapedWork].operations:
        if escaped.frames:
            yield Cause("GS604", f"{escaped.op} runs outside the capture", escaped.frames)


def judged(
    causes: Sequence[Cause], running: Sequence[tuple[CallSite, ...]], eager: Sequence[Mark], graphed: Sequence[Mark]
) -> tuple[list[Cause], list[Mark]]:
    """Return the causes on lines that the marks leave in a graph, one per line. Also return the functions that are
    marked as eager although nothing in them has to run eagerly. `running` has the frames of a step's operations. A mark
    is ignored if its function is in none of these frames."""
    eager = [mark for mark in eager if any(mark.holds(frames) for frames in running)]

    def is_left(cause: Cause) -> bool:
        if eager and not any(mark.holds(cause.frames) for mark in eager):
            return True
        return any(mark.holds(cause.frames) for mark in graphed)

    missing: dict[CallSite, Cause] = {}
    for cause in sorted(causes, key=lambda one: one.derived):
        if is_left(cause):
            missing.setdefault(cause.line, cause)
    needless = [mark for mark in eager if not any(mark.holds(cause.frames) for cause in causes)]
    return list(missing.values()), needless
