"""Finds how the state that a step reaches changes in its first three steps: created, grown, rebound or counted.

Also finds the line of the user's code that gives a piece of state another value or other memory. The state is read
after each line of this code. So the line is found even if it only calls a library that changes the state.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any

import torch

from graphsafe.capture.child.lines.executed import Executed
from graphsafe.capture.child.session import Session
from graphsafe.capture.child.state import ReachableState, defined_at, held_at, reachable_state
from graphsafe.capture.child.state.values import WRITERS
from graphsafe.capture.child.targets import TargetError
from graphsafe.capture.device.structures import memory_key
from graphsafe.capture.shared.frames import call_site, is_user_file, user_frames, user_frames_now
from graphsafe.capture.shared.places import is_within
from graphsafe.capture.shared.replaced import tracing
from graphsafe.report.model import CallSite
from graphsafe.report.probes.state import Change, State

_SEEN = ("rebound", "host", "changes")
"For these kinds of changes, `ChangesSeen` finds the lines."


def state(census: Sequence[ReachableState], ran: Executed, seen: ChangesSeen | None = None) -> State:
    """Return the probe `state`, from the state before step 1 and after steps 1, 2 and 3. `seen` has the lines that
    changed state in step 3.

    `how` is one of these:
    - `born`: missing or None before step 1
    - `grows`: a tensor, or a container that holds tensors, that is larger after each further step
    - `rebound`: a tensor whose path leads to another storage after a step
    - `host`: a Python value, or the length of a container of Python values, that every step changes
    - `changes`: a Python value that only some steps change
    - `cached`: a container to which step 2 or 3 adds a tensor
    - `opaque`: an iterator whose position cannot be read

    State that is born may also be counted or rebound later. Such state has two entries.
    """
    start, one, two, three = census
    found: dict[tuple[str, bool], Change] = {}

    def add(path: str, how: str, before: object = None, after: object = None, function: Any = None) -> None:
        # Add one entry per cause: if a path has an entry, paths inside it get none.
        born = how == "born"
        known = [name for name, is_birth in found if is_birth == born]
        if not any(is_within(path, outer) for outer in known):
            writer = ran.writer_of(path) if function is None else ran.caller_of(function)
            line = seen.line_of(path) if seen is not None and how in _SEEN else ()
            found[path, born] = Change(path, how, before, after, tuple(line or writer))

    for path, before, after in _grown(one, two, three):
        # Memory grows only with tensors. A list of numbers may be bounded, as in `self.sizes = self.sizes[-3:] + [n]`.
        holds_tensors = any(is_within(tensor, path) for tensor in three.tensors)
        add(path, "grows" if holds_tensors else "host", before, after)
    for path in (*one.tensors, *one.hosts, *one.lengths):
        if _is_none(start, path) and not _is_none(one, path) and not path.endswith(".grad"):
            add(path, "born")
    given = {memory_key(one) for path, one in three.tensors.items() if seen is not None and seen.is_given_memory(path)}
    for change in _changes(one, two, three):
        path, how = change[:2]
        # After `p.data = saved`, both names have the same new memory. Only `p` counts as rebound, because a step that
        # saves a new tensor does not read the old one.
        if how != "rebound" or memory_key(three.tensors[path]) not in given or (seen and seen.is_given_memory(path)):
            add(*change)
    for path, (cache, size) in one.caches.items():
        if size and path in start.caches and not start.caches[path][1]:
            add(path, "born", 0, size, cache.__wrapped__)
    for path in three.opaque:
        if ran.writer_of(path):  # report an iterator only if a step has used it
            add(path, "opaque")
    return State("fail" if found else "pass", changed=tuple(found.values()))


def changed_paths(before: ReachableState, after: ReachableState) -> list[str]:
    """Return the paths of numbers that have changed, and of tensors that now have other memory. Gradients come last."""
    found = [path for path, text in after.hosts.items() if before.hosts.get(path, text) != text]
    found += [
        path
        for path, tensor in after.tensors.items()
        if path in before.tensors and memory_key(before.tensors[path]) != memory_key(tensor)
    ]
    return sorted(found, key=lambda path: path.endswith(".grad"))


def _grown(one: ReachableState, two: ReachableState, three: ReachableState) -> Iterator[tuple[str, int, int]]:
    for path, length in sorted(three.lengths.items()):
        if one.lengths.get(path, length) < two.lengths.get(path, 0) < length and not _is_bounded(three, path):
            yield path, two.lengths[path], length
    for path, tensor in three.tensors.items():
        if path in two.tensors and tensor.nbytes > two.tensors[path].nbytes > one.tensors.get(path, tensor).nbytes:
            yield path, two.tensors[path].nbytes, tensor.nbytes


def _changes(
    one: ReachableState, two: ReachableState, three: ReachableState
) -> Iterator[tuple[str, str, object, object]]:
    for path, value in three.hosts.items():
        earlier, before = one.hosts.get(path), two.hosts.get(path)
        if earlier is not None and before is not None and not earlier == before == value:
            yield path, "host" if value != before != earlier else "changes", before, value
    for path, tensor in three.tensors.items():
        if path in two.tensors and memory_key(two.tensors[path]) != memory_key(tensor):
            yield path, "rebound", None, None
    for path in three.tensors:
        holder = path.rpartition("[")[0]
        if path not in one.tensors and one.lengths.get(holder, 0) < three.lengths.get(holder, 0):
            yield holder, "cached", one.lengths.get(holder), three.lengths[holder]


def _is_bounded(reach: ReachableState, path: str) -> bool:
    """Return whether a container drops old elements by itself and therefore stops growing."""
    container = reach.sized.get(path)
    return issubclass(type(container), deque) and deque.maxlen.__get__(container) is not None


def _is_none(reach: ReachableState, path: str) -> bool:
    if path in reach.tensors or path in reach.lengths:
        return False
    return reach.hosts.get(path, "None") == "None"


def lines_that_rebind(session: Session, paths: Sequence[str], k: int) -> list[tuple[CallSite, ...]]:
    """Call the refresh once more. For each tensor, return the frames of the line that gives it other memory. If no line
    is found for a tensor, return the place where the refresh is defined."""
    seen = ChangesSeen(reachable_state(session.subject), paths)
    with suppress(TargetError), tracing(seen.trace):
        session.put_inputs(k)
    refresh = defined_at(session.subject.refresh)
    written = () if refresh is None else (refresh,)
    return [seen.line_of(path) or written for path in paths]


_MOST_READ = 16
"At most this many paths are read after each line."
_MOST_LOOKS = 20_000
"If a step runs more lines than this, it is not watched to its end, and no line is found."


class ChangesSeen:
    """The lines that change the state at some paths. Paths that differ only in numbers, such as those of a model's
    layers, form a group. If there are too many paths, only the first groups are watched, and of each group only the
    first and the last path."""

    def __init__(self, reach: ReachableState, paths: Iterable[str]) -> None:
        self._reach = reach
        self._outer = {id(held): path for path, held in reach.sized.items() if path in reach.holders}
        self._alike: dict[str, list[str]] = {}
        "Path without its numbers -> the paths that are read."
        known = [path for path in paths if path in reach.owners]
        for path in known:
            self._alike.setdefault(_without_numbers(path), []).append(path)
        if len(known) > _MOST_READ:
            kinds = list(self._alike.items())[: _MOST_READ // 2]
            self._alike = {kind: [alike[0], alike[-1]] for kind, alike in kinds}
        with torch._C.DisableTorchFunction():
            self._last = {path: self._read(path) for alike in self._alike.values() for path in alike}
        self._lines: dict[str, tuple[CallSite, ...]] = {}
        self._given: set[str] = set()
        self._looks = 0
        self._running: tuple[FrameType, int] | None = None
        "The innermost frame of the user's code, and the line that it is running."

    def line_of(self, path: str) -> tuple[CallSite, ...]:
        """Return the frames of the line that changed this state last, or nothing."""
        found = {self._lines.get(one, ()) for one in self._read_for(path)}
        return found.pop() if len(found) == 1 else ()

    def is_given_memory(self, path: str) -> bool:
        """Return whether the state is still the same tensor but uses other memory, for example after `.data = …`."""
        return not self._given.isdisjoint(self._read_for(path))

    def _read_for(self, path: str) -> list[str]:
        return [path] if path in self._last else self._alike.get(_without_numbers(path), [])

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Handle an event. This is a trace function for `sys.settrace`."""
        if not self._last or not is_user_file(frame.f_code.co_filename):
            return None
        self._look()
        running = frame if event != "return" else next(iter(user_frames_now(frame.f_back)), None)
        self._running = None if running is None else (running, running.f_lineno)
        return self.trace

    def _look(self) -> None:
        """Read the state. If it has changed, record the running line as the cause."""
        self._looks += 1
        if self._looks > _MOST_LOOKS:  # too many lines; those found so far may not be the last that change the state
            self._last.clear()
            self._lines.clear()
        with torch._C.DisableTorchFunction():
            found = [(path, before, self._read(path)) for path, before in self._last.items()]
        for path, before, now in found:
            if now is None or (before is not None and now[1] == before[1]):
                continue
            self._last[path] = now
            if self._running is not None:
                frame, line = self._running
                self._lines[path] = (*user_frames(frame)[0][:-1], call_site(frame.f_code, line))
            if before is not None and now[0] is before[0] is not None:
                self._given.add(path)
            else:
                self._given.discard(path)

    def _read(self, path: str) -> tuple[torch.Tensor | None, int | str] | None:
        """Return the value at a path as a pair: a tensor and the identity of its memory, or None and a number as text.
        Return None if the path has no such value now, for example because a gradient was dropped."""
        try:
            value = self._held(*self._reach.owners[path])
            if isinstance(value, torch.Tensor):
                return value, memory_key(value)
            return None if value is None else (None, WRITERS[id(type(value))](value))
        except Exception:  # a container may now have another class, and a tensor may have no memory
            return None

    def _held(self, container: Any, key: Any) -> Any:
        """Return the value that a container now has under a key. If the container was replaced, use the new one."""
        outer = self._outer.get(id(container))
        return held_at(container if outer is None else self._held(*self._reach.holders[outer]), key)


def _without_numbers(path: str) -> str:
    return re.sub(r"\d+", "0", path)
