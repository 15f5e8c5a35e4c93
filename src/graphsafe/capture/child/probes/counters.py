"""Finds the numbers on the host that steps change, and sets counters ahead to values at which Python may take another
branch.

A counter is a number, such as a number of steps or the time of a simulation. Each step, together with its refresh,
changes a counter by the same amount, so a program reaches the counter's later values. All counters are set ahead by the
same number of steps, as if a program had run these steps.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from types import FrameType
from typing import Any, TypeGuard

from graphsafe.capture.child.session import Session
from graphsafe.capture.child.state import Bindings, ReachableState, held_at, put_back_host, reach_with_refresh, walk
from graphsafe.capture.child.state.containers import Slot
from graphsafe.capture.shared.frames import is_user_file
from graphsafe.capture.shared.replaced import tracing

BEFORE = 2
"After a jump, this many steps run before a counter comes to the value in question."
_AFTER = 3
"The number of steps in which a counter comes to the value in question and passes it."
_MOST_JUMPS = 16
_NEAR = 8
"If a counter comes to another such value within this many steps, the steps go on to it without another jump."
_LONGEST = 64
"The approximate limit on the number of steps after a jump."
_FARTHEST = 10_000_000
"No program is expected to run more steps than this."
_NUMBERS = (int, float)
_LARGEST = 2**53
"Floats cannot represent all larger integers."


class Counters:
    """The numbers that a step changes, and the counters among them."""

    def __init__(self, session: Session, early: ReachableState, steps: int) -> None:
        """Read the state before a step. `steps` is the number of steps since the state `early`."""
        self._session, self._subject, self._early, self._steps = session, session.subject, early, steps
        self._before = reach_with_refresh(session.subject)
        self._before_on_host = session.device.digests(session.on_host(self._before.tensors))
        self._after = ReachableState()
        self._used: set[float] = set()
        "Numbers among the constants and variables of the user's functions that ran in the step."
        self._moves: dict[str, tuple[float, float]] = {}
        "Path of a counter -> its value, and the amount by which a step changes it."

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Record the numbers that the user's functions use in this block."""

        def calls(frame: FrameType, event: str, argument: Any) -> Any:
            if not is_user_file(frame.f_code.co_filename):
                return None
            frame.f_trace_lines = False
            return returns

        def returns(frame: FrameType, event: str, argument: Any) -> None:
            if event == "return":
                used = chain(frame.f_code.co_consts, frame.f_locals.values())
                self._used.update(filter(_is_usual, used))

        with tracing(calls):
            yield

    def look(self) -> tuple[str, ...]:
        """Read the state after the step. Return the paths of the host state that still changes, without state that only
        the refresh reaches. State is also left out if it is the same as before all further steps, because it may only
        alternate."""
        self._after = reach_with_refresh(self._subject)
        self._bindings = Bindings(self._after)
        for path, value in self._after.values.items():
            before, early = self._before.values.get(path), self._early.values.get(path)
            if not type(value) is type(before) is type(early) or not _is_number(value):
                continue
            by, total = value - before, before - early  # type: ignore[operator]
            can_be_set = path in self._after.owners and not issubclass(type(self._after.owners[path][0]), tuple)
            if can_be_set and by and _is_usual(value) and _is_near(total, self._steps * by):
                self._moves[path] = value, by
        on_host = self._session.device.digests(self._session.on_host(self._after.tensors))
        found = [
            *_changed(self._after.hosts, self._before.hosts, self._early.hosts),
            *_changed(on_host, self._before_on_host),  # Python may decide by the values of these tensors
        ]
        found += [f"len({path})" for path in _changed(self._after.lengths, self._before.lengths, self._early.lengths)]
        return tuple(path for path in found if not path.removeprefix("len(").startswith("refresh"))

    def jumps(self) -> tuple[range, ...]:
        """Return the steps to run after each jump, nearest first. Step 0 is the step after the last one."""
        owners, resets = self._after.owners, {"reset": self._subject.reset, "events": dict(self._subject.events)}
        set_back = {_holder(owner) for owner, _ in walk(resets).owners.values()}
        self._moves = {path: move for path, move in self._moves.items() if _holder(owners[path][0]) not in set_back}
        moves, numbers = set(self._moves.values()), self._numbers()
        if self._subject.refresh is not None and moves:
            moves.add((self._steps + 1, 1))  # a refresh may decide by the number of the step
        wanted = {ahead for move in moves for number in numbers for ahead in self._reached(number, *move)}
        found: list[range] = []
        for ahead in sorted(wanted):
            if found and ahead < min(found[-1].stop + _NEAR, found[-1].start + _LONGEST):
                found[-1] = range(found[-1].start, ahead + _AFTER)
            else:
                found.append(range(max(ahead - BEFORE, 0), ahead + _AFTER))
        return tuple(found[:_MOST_JUMPS])

    def _reached(self, number: float, value: float, by: float) -> Iterator[int]:
        """Yield the largest number of steps after which a counter has not yet come to `number`. If the counter has
        already passed `number`, its next multiple is used instead. Multiples of small numbers were reached before."""
        if (number - value) * by <= 0:
            if by < 0 or number <= self._steps * by:
                return
            number *= value // number + 1
        ahead = math.ceil(abs(number - value) / abs(by)) - 1
        if ahead <= _FARTHEST:
            yield ahead

    def _numbers(self) -> set[float]:
        """Return the numbers with which a counter may be compared: numbers in functions that ran, numbers and keys in
        the state, lengths and sizes."""
        reach = self._after
        found: Iterable[Any] = chain(
            (0, *self._used),
            (value for path, value in reach.values.items() if path not in self._moves),
            (key for owner, key in reach.owners.values() if issubclass(type(owner), dict)),
            reach.lengths.values(),
            *(tensor.shape for tensor in reach.tensors.values()),
        )
        return set(filter(_is_usual, found))

    def set_ahead(self, steps: int) -> None:
        """Set each counter to the value that it has after `steps` more steps. Raises StateError."""
        self._bindings.put_back()
        for path, (value, by) in self._moves.items():
            put_back_host(self._after, path, value + steps * by)

    def are_ahead(self, steps: int) -> bool:
        """Return whether each counter has the value that it should have after `steps` more steps."""
        owners = self._after.owners
        return all(_is_near(held_at(*owners[path]), value + steps * by) for path, (value, by) in self._moves.items())


def _changed(now: Mapping[str, object], *earlier: Mapping[str, object]) -> Iterator[str]:
    """Yield the paths whose values differ from all earlier values. A path that was not there earlier is left out."""
    for path, value in now.items():
        if all(path in then and value != then[path] for then in earlier):
            yield path


def _is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a number of Python or of NumPy, and not a bool."""
    numpy: Any = sys.modules.get("numpy")
    return type(value) in _NUMBERS or (numpy is not None and isinstance(value, (numpy.integer, numpy.floating)))


def _is_usual(value: object) -> TypeGuard[float]:
    """Return whether a value is a number that a counter may have or reach. NaN and infinity are no such numbers."""
    return _is_number(value) and abs(value) < _LARGEST


def _is_near(value: object, expected: float) -> bool:
    """Return whether a number has the expected value. A sum of floats may differ from it in its last digits."""
    return math.isclose(value, expected, rel_tol=1e-9) if isinstance(value, float) else value == expected


def _holder(container: Any) -> int:
    return id(container.of if type(container) is Slot else container)
