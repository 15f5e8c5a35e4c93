"""Predicts a capture from shapes alone: builds and steps the target without weights or values, records the step twice
and compares the recordings.

The operations alone show whether a capture is refused, and whether two recordings froze different values. Operations
alone do not show whether a replay computes the same as an eager step, so this probe never proves a step ready.
"""

from __future__ import annotations

import threading
from collections.abc import Set
from dataclasses import replace

from graphsafe.capture.answers.build import Limits
from graphsafe.capture.answers.events import CaptureFailure, Diagnosis, StepEvent
from graphsafe.capture.answers.probes import EscapedWork, Reference, StepMemory
from graphsafe.capture.child.lines.carried import FromInputs, StillRead
from graphsafe.capture.child.probes.capture import captured
from graphsafe.capture.child.probes.construct import send_built
from graphsafe.capture.child.probes.horizon import run_further_steps
from graphsafe.capture.child.probes.step import held_by_step, observe, send_events, watched
from graphsafe.capture.child.probes.timeline import traced_step
from graphsafe.capture.child.probes.twin import compare_captures
from graphsafe.capture.child.session import CAPTURE_SEED, Session, opened
from graphsafe.capture.child.state import inputs_of, reachable_state
from graphsafe.capture.child.targets import TargetError
from graphsafe.capture.device.modes import outside_modes
from graphsafe.capture.shared.job import Channel, Job
from graphsafe.report.model import Limit
from graphsafe.report.probes.construct import Attempt
from graphsafe.report.probes.horizon import Horizon
from graphsafe.report.probes.memory import Memory
from graphsafe.report.probes.replay import Replay
from graphsafe.report.probes.timing import Timing

NOT_COMPUTED = "values were not computed"
_POOL_UNIT = 2 << 20
"The unit, in bytes, in which the caching allocator requests memory."


def run(job: Job, channel: Channel) -> None:
    attempts: list[Attempt] = []
    threads = set(threading.enumerate())
    with opened(job, channel, attempts) as session:
        channel.phase("look at what construction left")
        send_built(session, attempts, threads)
        channel.send(Replay(reason=NOT_COMPUTED, checks=()))
        unfilled = {path for path, (_, size) in reachable_state(session.subject).caches.items() if not size}
        try:
            warm, first, _ = observe(session, FromInputs(inputs_of(session.subject).values()))
        except TargetError as error:
            _report_failed_step(session, error)
            return
        held = held_by_step(session)
        channel.send(_memory(session, held))
        kernels = session.device.kernels(lambda: channel.send(traced_step(session)))
        channel.send(Timing(launches=None if kernels is None else kernels.total))
        _record(session, unfilled)
        channel.send(run_further_steps(session))
        _step_with_opposite_answers(session, warm, first)
        _limit(session)


def _report_failed_step(session: Session, error: TargetError) -> None:
    """Report the step up to its failure, if Python has read an unknown value in it: a capture would refuse that read.
    Otherwise the step fails by itself, and the error is raised again."""
    if not session.device.uncomputed_value_reads():
        raise error
    events: list[StepEvent] = []
    try:
        with session.device.watch(events.append):
            session.step(wait=False)
    except TargetError:
        pass
    send_events(session, events, [])
    _record(session)
    session.channel.send(Horizon(reason=error.line))
    _limit(session, error.line)


def _record(session: Session, unfilled: Set[str] = frozenset()) -> None:
    """Record the step, and record it again some steps later. A value that differs between the recordings was frozen.
    `unfilled` are the caches that were empty before step 1."""
    channel = session.channel
    channel.phase("capture")
    constants = reachable_state(session.subject).constants()
    session.seed(CAPTURE_SEED)
    with StillRead() as still_read:
        answer = session.device.record(session.subject)
    channel.send(replace(captured(session, answer), from_shapes=True))
    if isinstance(answer, CaptureFailure):
        if answer.event is not None:
            channel.send(Diagnosis("operation", answer.event))
        return
    channel.send(EscapedWork(answer.escaped()))
    if not answer.nodes():
        return
    if session.subject.refresh is None and still_read.carried:
        _tell_carried(session, still_read, unfilled)
    channel.send(compare_captures(session, answer, constants))
    answer.release()


def _tell_carried(session: Session, still_read: StillRead, unfilled: Set[str]) -> None:
    """Report the state that step 1 computed from its inputs and that the graph only reads."""
    reach = reachable_state(session.subject)
    with outside_modes():
        lazy = tuple(path for path, tensor in reach.tensors.items() if still_read.is_carried(tensor))
    caches = () if lazy else tuple(path for path, (_, size) in reach.caches.items() if size and path in unfilled)
    if lazy or caches:
        session.channel.send(Reference(lazy=lazy, lazy_caches=caches))
        session.channel.send(Replay(reason=NOT_COMPUTED, checks=(), first_step="fail"))


def _step_with_opposite_answers(session: Session, warm: list[StepEvent], first: list[StepEvent]) -> None:
    """Step once more, and give the opposite answer each time that Python asks for an unknown value. This step shows the
    lines on the other path."""
    if not session.device.uncomputed_value_reads():
        return
    session.channel.phase("a step with other answers")
    try:
        with session.device.with_made_up_values(0):
            more = watched(session)
    except TargetError:
        return  # a real step may never read these opposite values
    known = {(event.kind, event.op, event.frames[-1:], event.span) for event in warm}
    only_there = [event for event in more if (event.kind, event.op, event.frames[-1:], event.span) not in known]
    send_events(session, [*warm, *only_there], first)


def _memory(session: Session, held: StepMemory) -> Memory:
    """Return the probe `memory`, computed from the sizes that real tensors would have. The sizes include the
    allocator's rounding to its unit. They do not include the allocator's other overhead in a pool, which is not
    known."""
    return Memory(
        "skipped" if held.step is None else "pass",
        peak_bytes=session.device.memory().peak,
        pool_bytes=None if held.pool is None else -(-held.pool.bytes // _POOL_UNIT) * _POOL_UNIT,
        step=held.step,
        pool=held.pool,
    )


def _limit(session: Session, stopped: str | None = None) -> None:
    why = "so replays were not compared with eager steps, and code that branches on values may take another path"
    limits = [Limit("shapes", NOT_COMPUTED, why)]
    if stopped is not None:
        limits.append(Limit("shapes", "the step stopped on made-up values", stopped))
    session.channel.send(Limits(tuple(limits)))
