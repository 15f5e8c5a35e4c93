"""How long steps and replays take on a device that nobody else uses."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from graphsafe.capture.state import Undo
from graphsafe.capture.targets import users_code

if TYPE_CHECKING:
    from graphsafe.capture.session import Session
    from graphsafe.capture.state import Snapshot

_ROUNDS = 20
_LEAST_ROUNDS = 5
_SECONDS = 4.0
"After the least number of rounds, none is begun later than this."


def in_turn_ms(session: Session, calls: Sequence[Callable[[], Any]], state: Snapshot) -> list[float | None]:
    """The median time of each call, made in order, with the state put back before the first: a cache that fills up must
    not overflow. None where the device has no clock."""
    taken: list[list[float]] = [[] for _ in calls]
    begun = time.monotonic()
    undo: Undo | None = None
    for number in range(_ROUNDS + 1):
        if session.ranks.any(number > _LEAST_ROUNDS and time.monotonic() - begun > _SECONDS):
            break
        if number == 1:
            undo = Undo(session.device, state)
        state.put_back(undo)
        for call, times in zip(calls, taken, strict=True):
            session.ranks.align()
            one = session.device.time_ms(call, 1)
            if one is None:
                return [None for _ in calls]
            if number:  # the first round warms up
                times.append(one)
    return [statistics.median(times) if times else None for times in taken]


def eager_ms(session: Session, state: Snapshot) -> float | None:
    """Of an eager step. Raises TargetError."""

    def step() -> None:
        with users_code("step", "the step failed"):
            session.subject()

    return ms(session, step, state)


def ms(session: Session, call: Callable[[], Any], state: Snapshot) -> float | None:
    return in_turn_ms(session, [call], state)[0]
