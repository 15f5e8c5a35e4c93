"""Calls a target's refresh without steps, and finds the calls that change the host in a new way.

A program that replays a graph runs the refresh and the graph, but not the Python code of the step. So calls of the
refresh alone lead the host to states that the program reaches, in a small part of the time that steps would take. This
shows decisions that come late: after an epoch, at a rare random number, or at a later element of an iterator.
"""

from __future__ import annotations

import dis
import inspect
import resource
import sys
from collections.abc import Iterable, Iterator
from types import CodeType
from typing import Any

import torch

from graphsafe.capture.child.session import Session
from graphsafe.capture.child.state import (
    ReachableState,
    held_at,
    reach_with_refresh,
    reachable_state,
)
from graphsafe.capture.child.state.values import SCALARS
from graphsafe.capture.child.time_left import TimeLeft
from graphsafe.capture.device.modes import outside_modes

_MOST_CALLS = 20_000
_MOST_PLAIN = 1_024
"""The largest number of calls of a refresh that does not use its number and changes nothing on the host. Its later
calls can differ only by their random numbers."""
_LEARNING = 64
"In this many first calls, values are only learnt."
_MANY = 16
"A value that differs this often in these calls is a counter. `counters.py` covers counters."
_MOST_CHANGES = 64
"A value that differs more often than this is no longer watched."
_EVERY = 16
"Properties of tensors are read after one in so many calls, because a change of `requires_grad` or of a shape lasts."
_MOST_BYTES = 2**30
"The calls end if they need this much more memory, because the refresh may fill a queue that steps empty."


Watched = dict[str, tuple[Any, Any, set[Any]]]
"Path of a host value or a tensor -> its container and key, and the values that it had."


class RefreshCalls:
    def __init__(self, session: Session, number: int) -> None:
        """`number` is the number of the last step."""
        self._session = session
        self._number = number
        reach = reachable_state(session.subject)
        self._values = _watched(reach, reach.values)
        self._tensors = _watched(reach, reach.tensors)
        self._bytes = _most_memory()
        self._begun = self._host_state()
        self._most = _MOST_CALLS

    def changes(self, time_left: TimeLeft) -> Iterator[int]:
        """Call the refresh again and again. After each call that changes the host in a new way, yield the number of the
        step that the call prepares. Also yield each number of calls that is a power of two, because not all state on
        the host can be watched. Raises TargetError if a call fails."""
        self._session.seed(self._number)
        done = 0
        while (more := self._calls_to_change(done, time_left)) is not None:
            done = more
            yield self._number + done

    def _calls_to_change(self, done: int, time_left: TimeLeft) -> int | None:
        """Return the number of calls after which the next step should run, after the first `done` calls. Return None if
        the calls end."""
        subject = self._session.subject
        with self._session.refreshing(done) as refresh:
            for calls in range(done + 1, _MOST_CALLS + 1):
                if calls > self._most or time_left.used() > 1 or _most_memory() - self._bytes > _MOST_BYTES:
                    break
                refresh(subject.args, subject.kwargs, self._number + calls)
                most = _MANY if calls <= _LEARNING else _MOST_CHANGES
                is_new = _is_new(self._values, most) | (calls % _EVERY == 0 and _is_new(self._tensors, most))
                if calls == _LEARNING and self._is_plain():
                    self._most = _MOST_PLAIN
                if (is_new and calls > _LEARNING) or calls & (calls - 1) == 0:
                    return calls
        return None

    def _is_plain(self) -> bool:
        """Return whether the refresh neither uses its number nor has changed anything on the host so far."""
        return not (_uses_number(self._session.subject.refresh) or self._host_state() != self._begun)

    def _host_state(self) -> tuple[object, ...]:
        """Return a value that differs after the refresh has changed something on the host. Iterators differ each
        time, because their positions cannot be read."""
        reach = reach_with_refresh(self._session.subject)
        tensors = self._session.device.digests(self._session.on_host(reach.tensors))
        return reach.hosts, reach.lengths, tensors, object() if reach.opaque else None


def _uses_number(refresh: Any) -> bool:
    """Return whether a refresh uses its third argument, the number of the step. Return True if this is unknown."""
    code = getattr(refresh, "__code__", None)
    position = 3 if inspect.ismethod(refresh) else 2
    if not isinstance(code, CodeType) or code.co_argcount <= position:
        return True
    number = code.co_varnames[position]
    return any(number in one.argrepr for one in dis.get_instructions(code))


def _watched(reach: ReachableState, paths: Iterable[str]) -> Watched:
    places = ((path, reach.owners.get(path)) for path in paths)
    return {
        path: (*place, set()) for path, place in places if place is not None and not issubclass(type(place[0]), tuple)
    }


def _is_new(watched: Watched, most: int) -> bool:
    """Read all watched values. Return whether one has a value that it never had before. Values that have had more than
    `most` values are no longer watched."""
    is_new, restless = False, []
    with outside_modes():
        for path, (container, key, known) in watched.items():
            value = _told_apart(held_at(container, key))
            if value not in known:
                known.add(value)
                is_new = True
                if len(known) > most:
                    restless.append(path)
    for path in restless:
        del watched[path]
    return is_new


def _told_apart(value: Any) -> Any:
    """Return what Python's code may ask of a value without reading its elements: a number or a string itself, the
    properties of a tensor, the class of any other object."""
    if type(value) in SCALARS:
        return type(value), value
    if isinstance(value, torch.Tensor):
        return value.requires_grad, value.dtype, tuple(value.shape)
    return type(value)


def _most_memory() -> int:
    """Return the largest amount of memory that this process has used, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
