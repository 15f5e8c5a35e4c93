"""Runs the target's events, and replays after each. In an engine, such events (a reload, a sleep, a garbage collection)
happen between replays.

This is a separate child, because an event may change anything permanently. The step is captured and replayed as usual.
After each event the step is replayed once, and the replay is compared with the reference's eager step after the same
event. Each event happens twice, and more often if time allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from graphsafe.capture.answers.probes import Fired, FiredEvents
from graphsafe.capture.child.entropy import seeded_entropy
from graphsafe.capture.child.probes.capture import Replays, replayed
from graphsafe.capture.child.session import REPLAYS, Session, opened
from graphsafe.capture.child.state import ReachableState, defined_at, moved_tensors, reachable_state
from graphsafe.capture.child.targets import TargetError, describe, users_code
from graphsafe.capture.child.time_left import TimeLeft
from graphsafe.capture.shared.job import Channel, Job
from graphsafe.report.probes.replay import Check

_TURNS = 2
"The number of times that each event happens at least."
_MOST_TURNS = 12
"""The number of times that each event happens if time allows. An event may change memory only at a later time, such as
the third end of an epoch. From the second time on, results are in the report only if they differ."""
_CPU_SECONDS, _SECONDS = 1.0, 5.0
"After `_TURNS`, the reference runs no further event after this many seconds of CPU time, or of total time."


def run(job: Job, channel: Channel) -> None:
    with opened(job, channel) as session:
        replays = replayed(session)
        if replays is None or replays.error is not None:
            return
        steps = replays.reference.events
        found: tuple[Fired, ...] = ()
        for number, name in in_turn(session):
            reach = reachable_state(session.subject)
            before, held = reach.places(), _memory_of(session, reach)
            del reach  # it would keep tensors alive that the event drops
            fire(session, number, name)
            after = reachable_state(session.subject).places()
            held.clear()
            session.device.reuse_freed()
            if number >= len(steps):
                return  # the reference has already reported the failure, or an event cannot happen again
            checks = _checks(replays.compared_with(steps), number)
            found += (Fired(name, defined_at(session.subject.events[name]), moved_tensors(before, after), checks),)
            channel.send(FiredEvents(found))
            if not session.works():
                return


def _memory_of(session: Session, reach: ReachableState) -> list[torch.UntypedStorage]:
    """Return the memory of the state, to be held while an event runs. An event that frees memory and allocates it again
    then gets other memory, as in a program that allocates something else in between. Without this, a caching allocator
    often returns the same memory. If the device has no room for both, return an empty list."""
    on_device = filter(session.is_on_gpu, reach.tensors.values())
    found = {one.data_ptr(): one for one in (tensor.untyped_storage() for tensor in on_device)}
    free = session.device.memory().free
    has_room = free is None or sum(one.nbytes() for one in found.values()) < free
    return [*found.values()] if has_room else []


def _checks(replays: Replays, number: int) -> tuple[Check, ...]:
    """Replay after an event. A replay that fails is a fault, because the eager step after the event does not fail. The
    replay's kernels may have read beyond memory that the event made smaller."""
    try:
        return replays.once(number + 1, inputs_of_event(number))
    except TargetError:
        raise
    except torch.OutOfMemoryError as error:
        raise TargetError("step", describe(error)) from error
    except Exception as error:
        return (Check(f"a replay that fails ({type(error).__name__})", "different", False, number + 1, None),)


def in_turn(session: Session) -> Iterator[tuple[int, str]]:
    """Yield the events in order, each with its number, and then all of them again and again. At a later time, an event
    may act differently, for instance because a pool has no room left."""
    return enumerate([*session.subject.events] * _MOST_TURNS)


def fire_all(session: Session, then: Callable[[int], None]) -> str | None:
    """Run the events in turn. After each, call `then` with the index of the next inputs. Return the first failure.
    If an event fails only when it is repeated, the error does not count as a failure, but no further event is run."""
    time_left = None
    for number, name in in_turn(session):
        turn = number // len(session.subject.events)
        is_again = turn > 0
        if turn >= _TURNS:
            time_left = time_left or TimeLeft(_CPU_SECONDS, _SECONDS)
            if session.ranks.any(time_left.used() > 1):
                return None
        try:
            fire(session, number, name)
        except TargetError as error:
            return None if is_again else error.line
        try:
            then(inputs_of_event(number))
        except TargetError as error:
            return None if is_again else f"after the event {name!r} {error.line}"
    return None


def fire(session: Session, number: int, name: str) -> None:
    """Run an event. Raises TargetError."""
    session.channel.phase(f"event {name}")
    session.seed(inputs_of_event(number))
    event = session.subject.events[name]
    with users_code("step", f"the event {name!r} failed", defined_at(event)), seeded_entropy(f"event {number}"):
        event()
        session.device.synchronize()


def inputs_of_event(number: int) -> int:
    """Return the index of the inputs that the step after an event uses."""
    return 1 + number % REPLAYS
