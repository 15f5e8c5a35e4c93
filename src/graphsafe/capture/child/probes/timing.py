"""Times steps and replays on a device that no other process uses."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from graphsafe.capture.child.session import Session
from graphsafe.capture.child.state import Snapshot, Undo
from graphsafe.capture.child.targets import users_code

_ROUNDS = 20
_LEAST_ROUNDS = 5
_SECONDS = 4.0
"After the least number of rounds, no round begins later than this many seconds."


@dataclass(frozen=True, slots=True)
class Times:
    """The rounds of one call, in milliseconds; None if the device has no clock."""

    median: float | None = None
    spread: tuple[float, float] | None = None
    "The range in which eight of ten rounds lie."

    @staticmethod
    def of(rounds: Sequence[float]) -> Times:
        if len(rounds) < 2:
            return Times(rounds[0] if rounds else None)
        tenths = statistics.quantiles(rounds, n=10, method="inclusive")
        return Times(statistics.median(rounds), (tenths[0], tenths[-1]))


def in_turn(session: Session, calls: Sequence[Callable[[], Any]], state: Snapshot) -> list[Times]:
    """Time each call, in order, with the state put back before the first: a cache that fills up must not overflow."""
    taken: list[list[float]] = [[] for _ in calls]
    begun = time.monotonic()
    undo: Undo | None = None
    for number in range(_ROUNDS + 1):
        if session.ranks.any(number > _LEAST_ROUNDS and time.monotonic() - begun > _SECONDS):
            break
        if number == 1:
            undo = Undo(session.device, state)
        state.put_back(undo.undo if undo else None)
        for call, times in zip(calls, taken, strict=True):
            session.ranks.align()
            one = session.device.time_ms(call, 1)
            if one is None:
                return [Times() for _ in calls]
            if number:  # the first round warms up
                times.append(one)
    return [Times.of(times) for times in taken]


def eager_times(session: Session, state: Snapshot) -> Times:
    """Time eager steps. Raises TargetError."""

    def step() -> None:
        with users_code("step", "the step failed"):
            session.subject()

    return times_of(session, step, state)


def times_of(session: Session, call: Callable[[], Any], state: Snapshot) -> Times:
    """Time one call."""
    return in_turn(session, [call], state)[0]
