"""Finds the numbers on the host that steps change, and moves counters forward to values at which Python may take
another branch.

A counter is an array on the host, the length of a list, or a number (a number of steps, for example, or the time of a
simulation). Each step, together with its refresh, changes a counter by the same amount, so a program reaches the
counter's later values. All counters are moved forward by the same number of steps, as if a program had run these steps.
"""

from __future__ import annotations

import dis
import functools
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, count
from types import CodeType, FrameType
from typing import Any, TypeGuard

from graphsafe.capture.child.probes.further.counting_arrays import CountingArrays
from graphsafe.capture.child.probes.further.growing_lists import GrowingLists
from graphsafe.capture.child.session import Session
from graphsafe.capture.child.state import Bindings, ReachableState, held_at, put_back_host, reach_with_refresh, walk
from graphsafe.capture.child.state.containers import Slot
from graphsafe.capture.child.time_left import TimeLeft
from graphsafe.capture.shared.frames import is_user_file
from graphsafe.capture.shared.replaced import tracing

SETTLING_STEPS = 64
"State that no longer changes after this many further steps counts as settled."
BEFORE = 2
"After a jump, this many steps run before a counter reaches the value in question."
_AFTER = 3
"The number of steps in which a counter reaches the value in question and passes it."
_MOST_JUMPS = 16
_NEAR = 8
"""If a counter reaches another value in question within this many steps, the steps continue to that value without
another jump."""
_LONGEST = 64
"The approximate limit on the number of steps after a jump."
_FARTHEST = 10_000_000
"No program is expected to run more steps than this."
_SEARCHED = (1_000, 10_000, 100_000, 1_000_000)
"Numbers of further steps. A search first tries the step after each of these numbers."
_NUMBERS = (int, float)
_CONSTANTS, _DECIDES = ("LOAD_CONST", "LOAD_SMALL_INT"), ("COMPARE_OP", "BINARY_MODULO", "BINARY_FLOOR_DIVIDE")
"Instructions of Python. From Python 3.11 on, BINARY_OP stands for the last two."
_LARGEST = 2**53
"Floats cannot represent all larger integers."


@dataclass(frozen=True)
class Settled:
    """The state after some further steps, and the arrays and lists that may count from then on."""

    reach: ReachableState
    counting: tuple[CountingArrays, GrowingLists]

    @staticmethod
    def after(session: Session, reach: ReachableState, number: int) -> Settled:
        """`reach` is the state after step `number`."""
        return Settled(reach, (CountingArrays(session, reach, number), GrowingLists(reach, number)))


class Counters:
    """The numbers that a step changes, and the counters among them."""

    def __init__(self, session: Session, early: ReachableState, steps: int, settled: Settled | None) -> None:
        """Read the state before a step. `steps` is the number of steps since the state `early`. `settled` is the state
        after `SETTLING_STEPS` steps; without it, the state before the last step is used instead."""
        self._session, self._subject, self._early, self._steps = session, session.subject, early, steps
        self._before = reach_with_refresh(session.subject)
        self._settled = settled or Settled.after(session, self._before, steps)
        self._before_on_host = session.device.digests(session.on_host(self._before.tensors))
        self._after = ReachableState()
        self._used: set[float] = set()
        "Numbers among the constants and variables of the user's functions that ran in the step."
        self._compared: set[float] = set()
        "The constants among these numbers with which the functions compare, or by which they divide."
        self._moves: dict[str, tuple[float, float]] = {}
        "Path of a counter -> its value, and the amount by which a step changes it."

    def __bool__(self) -> bool:
        """Return whether anything counts. A refresh may count too, because it gets the number of the step."""
        return bool(self._moves) or any(self._settled.counting) or self._subject.refresh is not None

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
                self._compared.update(_compared_in(frame.f_code))

        with tracing(calls):
            yield

    def look(self) -> tuple[str, ...]:
        """Read the state after the step. Return the paths of the host state that still changes: each value differs from
        the value before all further steps, and also from the value in the settled state. State that only the refresh
        reaches is left out. State that alternates may be left out too."""
        self._after = reach_with_refresh(self._subject)
        self._bindings = Bindings(self._after)
        resets = {"reset": self._subject.reset, "events": dict(self._subject.events)}
        set_back = {_holder(owner) for owner, _ in _owners(walk(resets)).values()}
        can_be_set = {
            path
            for path, (owner, _) in _owners(self._after).items()
            if not issubclass(type(owner), tuple) and _holder(owner) not in set_back
        }
        for one in self._settled.counting:
            one.look(self._after, self._steps + 1, can_be_set)
        for path, value in self._after.values.items():
            before, early = self._before.values.get(path), self._early.values.get(path)
            if not type(value) is type(before) is type(early) or not _is_number(value):
                continue
            by, total = value - before, before - early  # type: ignore[operator]
            if path in can_be_set and by and _is_usual(value) and _is_near(total, self._steps * by):
                self._moves[path] = value, by
        on_host = self._session.device.digests(self._session.on_host(self._after.tensors))
        found = [
            *_changed(self._after.hosts, self._settled.reach.hosts, self._early.hosts),
            *_changed(on_host, self._before_on_host),  # Python's decisions may depend on these values
        ]
        found += [
            f"len({path})" for path in _changed(self._after.lengths, self._settled.reach.lengths, self._early.lengths)
        ]
        return tuple(path for path in found if not path.removeprefix("len(").startswith("refresh"))

    def jumps(self) -> Iterator[range]:
        """Yield the steps to run after each jump. Constants with which the code compares come first, then all other
        numbers in the code, then all others. The nearest number of each kind comes first. Step 0 is the step after the
        last one."""
        known: set[float] = set()
        for numbers in (self._compared, {0, *self._used}, self._other_numbers()):
            yield from self._jumps_to(numbers - known)
            known |= numbers

    def _jumps_to(self, numbers: Iterable[float]) -> Sequence[range]:
        moves = set(self._moves.values())
        if self._subject.refresh is not None:
            moves.add((self._steps + 1, 1))  # a refresh's decisions may depend on the step's number
        found: list[range] = []
        for ahead in sorted({ahead for move in moves for number in numbers for ahead in self._reached(number, *move)}):
            if found and ahead < min(found[-1].stop + _NEAR, found[-1].start + _LONGEST):
                found[-1] = range(found[-1].start, ahead + _AFTER)
            else:
                found.append(around(ahead))
        return found[:_MOST_JUMPS]

    def _reached(self, number: float, value: float, by: float) -> Iterator[int]:
        """Yield the largest number of steps after which a counter has not yet reached `number`. If the counter has
        already passed `number`, the next multiple of `number` is used instead. A small `number` is skipped, because
        earlier steps have already reached a multiple of it."""
        if (number - value) * by <= 0:
            if by < 0 or number <= self._steps * by:
                return
            number *= value // number + 1
        ahead = math.ceil(abs(number - value) / abs(by)) - 1
        if ahead <= _FARTHEST:
            yield ahead

    def _other_numbers(self) -> set[float]:
        """Return the other numbers with which a counter may be compared: numbers and keys in the state, lengths and
        sizes."""
        reach = self._after
        found: Iterable[Any] = chain(
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
        for one in self._settled.counting:
            one.set_ahead(steps)

    def are_ahead(self, steps: int) -> bool:
        """Return whether each counter has the value that it should have after `steps` more steps."""
        owners = self._after.owners
        are_near = (_is_near(held_at(*owners[path]), value + steps * by) for path, (value, by) in self._moves.items())
        return all(are_near) and all(one.are_ahead(steps) for one in self._settled.counting)


def around(ahead: int) -> range:
    """Return the steps to run for a jump to the step after `ahead` more steps."""
    return range(max(ahead - BEFORE, 0), ahead + _AFTER)


def first_departing(try_ahead: Callable[[int], bool | None], time_left: TimeLeft) -> int | None:
    """Find by bisection the first later step that departs from known paths. Return the number of steps before it. This
    number need not occur in the code: Python may compare a ratio, a product or a sum of two counters.

    `try_ahead(steps)` returns whether the step after `steps` more steps takes a known path. It returns None if that
    step cannot run, for example because a position is beyond its buffer. Return None if no step departs, or if the time
    is over."""
    low, high, as_before = 0, 0, None
    for tried in count(1):
        ahead = (low + high) // 2 if high else next((far for far in _SEARCHED if far > low), low)
        if ahead == low:
            return high if as_before is False else None
        if time_left.is_over(tried):
            return None
        result = try_ahead(ahead)
        if result:
            low = ahead
        else:
            high, as_before = ahead, result
    return None


@functools.cache
def _compared_in(code: CodeType) -> frozenset[float]:
    """Return the constants with which a function compares values, or by which it divides them: `n >= 750`, `n % 100`,
    `n // 1000`."""
    found: set[float] = set()
    constant: object = None
    for instruction in dis.get_instructions(code):
        decides = instruction.opname in _DECIDES or instruction.argrepr in ("%", "//")
        if decides and _is_usual(constant):
            found.add(constant)
        constant = instruction.argval if instruction.opname in _CONSTANTS else None
    return frozenset(found)


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
    """Return whether a value is a number that a counter may have or reach. NaN and infinity are not such numbers."""
    return _is_number(value) and abs(value) < _LARGEST


def _is_near(value: object, expected: float) -> bool:
    """Return whether a number has the expected value. The last digits may differ, because a sum of floats is
    rounded."""
    return math.isclose(value, expected, rel_tol=1e-9) if isinstance(value, float) else value == expected


def _owners(reach: ReachableState) -> dict[str, tuple[Any, Any]]:
    """Return the container and the key of each value, and of each list, set and dict, by path."""
    return reach.owners | reach.holders


def _holder(container: Any) -> int:
    return id(container.of if type(container) is Slot else container)
