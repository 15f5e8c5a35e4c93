"""Finds how the state that a step reaches changes in its first three steps: created, grown, rebound or counted. Also
finds the lines of a refresh that bind inputs to other memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from graphsafe.capture.child.lines.changes import ChangesSeen
from graphsafe.capture.child.lines.executed import Executed
from graphsafe.capture.child.session import Session
from graphsafe.capture.child.state import ReachableState, defined_at, reachable_state
from graphsafe.capture.child.targets import TargetError
from graphsafe.capture.device.structures import memory_key
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
