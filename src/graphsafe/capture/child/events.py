"""Runs the target's events: what an engine does between replays, such as a reload, a sleep or a garbage collection."""

from __future__ import annotations

from collections.abc import Callable

from graphsafe.capture.child.session import REPLAYS, Session
from graphsafe.capture.child.state import defined_at
from graphsafe.capture.child.targets import TargetError, users_code


def fire_all(session: Session, then: Callable[[int], None]) -> str | None:
    """Run the events in order, and call `then` after each with the number of the next inputs. Return a failure."""
    for number, name in enumerate(session.subject.events):
        try:
            fire(session, number, name)
        except TargetError as error:
            return error.line
        try:
            then(inputs_of_event(number))
        except TargetError as error:
            return f"after the event {name!r} {error.line}"
    return None


def fire(session: Session, number: int, name: str) -> None:
    """Run an event. Raises TargetError."""
    session.channel.phase(f"event {name}")
    session.seed(inputs_of_event(number))
    event = session.subject.events[name]
    with users_code("step", f"the event {name!r} failed", defined_at(event)):
        event()
        session.device.synchronize()


def inputs_of_event(number: int) -> int:
    """Return the number of the inputs for the step after an event."""
    return 1 + number % REPLAYS
