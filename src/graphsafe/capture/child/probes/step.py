"""Watches an eager step for work that a graph cannot do: every wait, copy, data-dependent size and allocation, by line.
One run finds all such work, and the step is not stopped. The probe `state` finds how the step changes the state that it
reaches."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from graphsafe.capture.answers.events import Asked, StepEvent
from graphsafe.capture.answers.probes import HostCall, Ran, SeenEvent, StepMemory, Watched
from graphsafe.capture.child.lines.executed import Executed, lines_traced
from graphsafe.capture.child.lines.host_calls import host_calls_watched
from graphsafe.capture.child.memory_use import memory_held
from graphsafe.capture.child.own_graphs.plain import eager_marks
from graphsafe.capture.child.probes.horizon import LATER_STEPS, run_further_steps
from graphsafe.capture.child.probes.state import ChangesSeen, changed_paths, state
from graphsafe.capture.child.probes.timeline import traced_step
from graphsafe.capture.child.session import FIRST_SEED, Session, opened
from graphsafe.capture.child.state import ReachableState, reachable_state
from graphsafe.capture.child.targets import TargetError, users_code
from graphsafe.capture.device.protocol import MemoryEvent
from graphsafe.capture.shared.job import Channel, Job
from graphsafe.capture.shared.replaced import replaced
from graphsafe.report.model import CallSite
from graphsafe.report.probes.horizon import USUAL_STEPS, Horizon
from graphsafe.report.probes.step import Step
from graphsafe.report.reading import members

_LETTING_GO = 0.05
"The time in seconds within which the threads of a backend release the tensors of a collective."
_SYNCS = frozenset({"read", "wait", "query", "extent", "hidden-sync"})
_COPIES = frozenset({"copy-to-host", "copy-to-device"})
_OF_HOST = frozenset({"host", "opaque"})


def send_events(
    session: Session, warm: list[StepEvent], first: list[StepEvent], captured: list[StepEvent] | None = None
) -> None:
    """Report the events of a warm step and of step 1. `captured` has the events of a step along the path of captures;
    it is None if the step never asks whether a capture is under way."""
    syncs, copies = _count(warm, _SYNCS), _count(warm, _COPIES)
    step = Step(
        "fail" if syncs or copies else "pass",
        ran=True,
        syncs=syncs,
        copies=copies,
        allocations=_count(warm, {"allocation"}),
        unknown_operations=tuple(session.device.unknown_operations()),
    )
    session.channel.send(step, Watched(_aggregated(warm, first, captured)))


def run(job: Job, channel: Channel) -> None:
    with opened(job, channel) as session:
        # All ranks must run equally many further steps. Otherwise a rank would wait for the others in a collective.
        _, _, changes_host = observe(session)
        decides_later = session.ranks.any(changes_host or session.subject.refresh is not None)
        channel.send(held_by_step(session))
        if session.device.evidence == "predicted":
            channel.send(traced_step(session))
        channel.send(Horizon("crashed", "the process died in a further step"))
        channel.send(run_further_steps(session, most=LATER_STEPS if decides_later else USUAL_STEPS))


def observe(
    session: Session, first_step: AbstractContextManager[object] | None = None
) -> tuple[list[StepEvent], list[StepEvent], bool]:
    """Run the first steps and then a warm step. Report and return the events of the warm step and of step 1. Also
    return whether the steps change state on the host, or may change it (an iterator whose position cannot be read).
    Step 1 runs inside the context `first_step`. Raises TargetError."""
    channel = session.channel
    ran = Executed()
    census = [_reached(session)]
    channel.phase("step 1, watched")
    session.seed(FIRST_SEED)
    with first_step or nullcontext():
        first = watched(session, ran)
    census.append(_reached(session))
    calls: list[HostCall] = []
    changing: ChangesSeen | None = None
    for k in (1, 2):
        channel.phase(f"step {k + 1}")
        session.seed(FIRST_SEED + k)
        with lines_traced(ran, None if changing is None else changing.trace), host_calls_watched(calls.append):
            session.step()
        census.append(_reached(session))
        if changing is None:
            changing = ChangesSeen(census[-1], changed_paths(*census[-2:]))
    session.warm_up(done=3)
    changes = state(census, ran, changing)
    del census, changing
    channel.phase("a warm step, watched")
    session.put_inputs(1)
    session.ranks.issued.never_waited()
    warm = watched(session)
    never_waited = tuple(session.ranks.issued.never_waited())
    changes_host = any(change.how in _OF_HOST for change in changes.changed or ())
    captured = _watched_as_if_captured(session)
    lines = {file: tuple(sorted(lines)) for file, lines in ran.lines.items()}
    send_events(session, warm, first, captured)
    channel.send(changes, Ran(lines, tuple(dict.fromkeys(calls)), never_waited, _marks(ran)))
    return warm, first, changes_host


def held_by_step(session: Session) -> StepMemory:
    """Return the device memory that a step takes, by line.

    If the device cannot read a graph's pool, the memory of a step along the path of captures is reported as the pool's
    memory. If the step does not ask whether a capture is under way, it takes the same path in a plain run, so no
    separate plain step is measured.
    """
    session.channel.phase("a warm step, its memory watched")
    asked: list[Asked] = []
    pool = failed = None
    if session.device.evidence == "predicted":
        try:
            with replaced((session, "capture_path", True), (session, "asked", asked.append)):
                events, kept = _memory_events(session)
        except TargetError as error:
            failed = error.line
        else:
            pool = memory_held(events[:kept])  # a graph's pool holds the outputs as long as the graph exists
            if not asked:
                return StepMemory(step=memory_held(events), pool=pool)
    session.capture_path = False
    try:
        events, _ = _memory_events(session)
    except TargetError as error:
        return StepMemory(pool=pool, failed=failed or error.line)
    return StepMemory(step=memory_held(events), pool=pool, failed=failed)


def _memory_events(session: Session) -> tuple[Sequence[MemoryEvent], int]:
    """Run a step. Return its events, and the number of events before its outputs were dropped."""
    session.put_inputs(1)
    with session.device.watch_memory() as events:
        outputs = session.path_step()
        _collectives_let_go(session)
        kept = len(events)
        del outputs
    return events, kept


def _collectives_let_go(session: Session) -> None:
    """Wait until the threads of the backend have released the tensors of finished collectives.

    The threads hold a tensor for a moment after `wait()`. Without this pause, the memory in use would differ from run
    to run.
    """
    if session.job.ranks > 1:
        time.sleep(_LETTING_GO)


def _marks(ran: Executed) -> tuple[CallSite, ...]:
    """Return the functions that ran and that the target has marked to run eagerly between graphs."""
    inside = [(mark, set(range(mark.line + 1, mark.last + 1))) for mark in eager_marks()]
    ran_inside = [mark for mark, lines in inside if lines & ran.lines.get(mark.path, set())]
    return tuple(CallSite(mark.path, mark.line, mark.function) for mark in ran_inside)


def _reached(session: Session) -> ReachableState:
    reach = reachable_state(session.subject)
    reach.tensors = reach.views()
    return reach


def watched(session: Session, ran: Executed | None = None) -> list[StepEvent]:
    """Run a step and return its events. The lines that ran are added to `ran`, if it is given. Raises TargetError."""
    events: list[StepEvent] = []
    tracing = nullcontext() if ran is None else lines_traced(ran)
    with session.device.watch(events.append), tracing:
        session.step(wait=False)
    with users_code("step", "the step failed"):
        session.device.synchronize()
    return events


def _watched_as_if_captured(session: Session) -> list[StepEvent] | None:
    """Return the events of a step that takes the path of captures. Return None if the step never asks whether a capture
    is under way, or if it fails on the path of captures."""
    asked: list[Asked] = []
    session.put_inputs(1)
    try:
        with session.device.as_if_capturing(asked.append):
            events = watched(session)
    except TargetError:
        return None
    return events if asked else None


def _count(events: Iterable[StepEvent], kinds: Iterable[str]) -> int:
    return sum(event.kind in kinds for event in events)


def _aggregated(
    warm: list[StepEvent], first: list[StepEvent], captured: list[StepEvent] | None
) -> tuple[SeenEvent, ...]:
    """Return one entry for each kind, operation and place, with the number of its events. An entry is marked if its
    events occur only in step 1, or if they do not occur on the path of captures."""
    found: dict[object, SeenEvent] = {}
    on_path = None if captured is None else {_place(event) for event in captured}
    for events, only_first in ((warm, False), (first, True)):
        for event in events:
            key = _place(event)
            known = found.get(key)
            if known is None:
                guarded = on_path is not None and key not in on_path
                found[key] = SeenEvent(**members(event), first_only=only_first, guarded=guarded)
            elif known.first_only == only_first:
                total = known.nbytes if event.nbytes is None else (known.nbytes or 0) + event.nbytes
                found[key] = replace(known, count=known.count + 1, nbytes=total)
    return tuple(found.values())


def _place(event: StepEvent) -> tuple[object, ...]:
    return (event.kind, event.op, event.via, event.frames[-1:], event.span)
