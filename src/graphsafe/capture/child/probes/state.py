"""Finds how the state that a step reaches changes in its first three steps: created, grown, rebound or counted."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from graphsafe.capture.child.lines.executed import Executed
from graphsafe.capture.child.state import ReachableState
from graphsafe.capture.device.structures import memory_key
from graphsafe.capture.shared.places import is_within
from graphsafe.report.probes.state import Change, State


def state(census: Sequence[ReachableState], ran: Executed) -> State:
    """Return the probe `state`, from the state before step 1 and after steps 1, 2 and 3.

    `how` is one of these:
    - `born`: missing or None before step 1
    - `grows`: larger after each further step
    - `rebound`: a tensor whose name has another storage after a step
    - `host`: a Python value that every step changes
    - `changes`: a Python value that only some steps change
    - `cached`: a container to which step 2 or 3 adds a tensor
    - `opaque`: an iterator whose position cannot be read

    State that is born may later be counted or rebound too. It then has two entries.
    """
    start, one, two, three = census
    grown = {
        path
        for path, length in three.lengths.items()
        if one.lengths.get(path, length) < two.lengths.get(path, 0) < length and not _is_bounded(three, path)
    }
    found: dict[tuple[str, bool], Change] = {}

    def add(path: str, how: str, before: object = None, after: object = None, function: Any = None) -> None:
        # One entry per cause: the first path that is found also stands for the parts of its object.
        born = how == "born"
        known = [name for name, is_birth in found if is_birth == born]
        if not any(is_within(path, outer) for outer in known):
            writer = ran.writer_of(path) if function is None else ran.caller_of(function)
            found[path, born] = Change(path, how, before, after, tuple(writer))

    for path in sorted(grown):
        add(path, "grows", two.lengths[path], three.lengths[path])
    for path, before, after in _grown_tensors(one, two, three):
        add(path, "grows", before, after)
    for path in (*one.tensors, *one.hosts, *one.lengths):
        if _is_none(start, path) and not _is_none(one, path) and not path.endswith(".grad"):
            add(path, "born")
    for path, how, value, new in _changed_hosts(one, two, three):
        add(path, how, value, new)
    for path in _rebound(two, three):
        add(path, "rebound")
    for cache in _filled_caches(one, three):
        add(cache, "cached", one.lengths.get(cache), three.lengths[cache])
    for path, (cache, size) in one.caches.items():
        if size and path in start.caches and not start.caches[path][1]:
            add(path, "born", 0, size, cache.__wrapped__)
    for path in three.opaque:
        if ran.writer_of(path):  # report an iterator only if a step has used it
            add(path, "opaque")
    return State("fail" if found else "pass", changed=tuple(found.values()))


def _grown_tensors(one: ReachableState, two: ReachableState, three: ReachableState) -> Iterator[tuple[str, int, int]]:
    """Yield the path of each tensor that step 2 and step 3 both enlarged, and its bytes before and after step 3."""
    for path, tensor in three.tensors.items():
        if path in two.tensors and tensor.nbytes > two.tensors[path].nbytes > one.tensors.get(path, tensor).nbytes:
            yield path, two.tensors[path].nbytes, tensor.nbytes


def _rebound(two: ReachableState, three: ReachableState) -> Iterator[str]:
    """Yield the path of each tensor that has another storage after the last step."""
    for path, tensor in three.tensors.items():
        held = two.tensors.get(path)
        if held is not None and memory_key(held) != memory_key(tensor):
            yield path


def _filled_caches(one: ReachableState, three: ReachableState) -> Iterator[str]:
    """Yield each container to which step 2 or 3 added a tensor."""
    for path in three.tensors:
        cache = path.rpartition("[")[0]
        if path not in one.tensors and one.lengths.get(cache, 0) < three.lengths.get(cache, 0):
            yield cache


def _changed_hosts(
    one: ReachableState, two: ReachableState, three: ReachableState
) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield each Python value that every step (`host`) or only some step (`changes`) changes, with its values before
    and after the last step."""
    for path, value in three.hosts.items():
        before = two.hosts.get(path)
        earlier = one.hosts.get(path)
        if before is not None and before != value and earlier not in (None, before):
            yield path, "host", before, value
        elif None not in (before, earlier) and not earlier == before == value:
            yield path, "changes", before, value


def _is_bounded(reach: ReachableState, path: str) -> bool:
    """Return whether a container drops old elements by itself, so that it stops growing."""
    container = reach.sized.get(path)
    return issubclass(type(container), deque) and deque.maxlen.__get__(container) is not None


def _is_none(reach: ReachableState, path: str) -> bool:
    if path in reach.tensors or path in reach.lengths:
        return False
    return reach.hosts.get(path, "None") == "None"
