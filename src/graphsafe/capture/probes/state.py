"""How the state that a step reaches changes over its first three runs: what is born, grows, is rebound or counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from graphsafe.capture.lines.executed import Executed
from graphsafe.capture.lines.places import is_within
from graphsafe.capture.state import Reach


def changes(census: Sequence[Reach], ran: Executed) -> list[dict[str, Any]]:
    """From the state before step 1 and after steps 1, 2 and 3: `{name, how, before, after, frames}` each.

    `how` is born (missing or None before step 1), grows, rebound (another storage under the same name after every
    step), host (a Python value that every step changes), changes (one that some step changes), cached (a new entry in
    step 2 or 3), or opaque (an iterator whose position cannot be seen). What is born may count or be rebound after
    that: it then has two entries.
    """
    start, one, two, three = census
    grown = {
        path
        for path, length in three.lengths.items()
        if one.lengths.get(path, length) < two.lengths.get(path, 0) < length
    }
    found: dict[tuple[str, bool], dict[str, Any]] = {}

    def add(path: str, how: str, before: Any = None, after: Any = None, function: Any = None) -> None:
        # One cause, one entry: the first one told, and an object's own parts with it.
        born = how == "born"
        known = [name for name, is_birth in found if is_birth == born]
        if not any(is_within(path, outer) for outer in known):
            writer = ran.writer_of(path) if function is None else ran.caller_of(function)
            frames = [asdict(frame) for frame in writer]
            found[path, born] = {"name": path, "how": how, "before": before, "after": after, "frames": frames}

    for path in sorted(grown):
        add(path, "grows", two.lengths[path], three.lengths[path])
    for path, tensor in three.tensors.items():
        if path in two.tensors and tensor.nbytes > two.tensors[path].nbytes > one.tensors.get(path, tensor).nbytes:
            add(path, "grows", two.tensors[path].nbytes, tensor.nbytes)
    for path in _keys(one):
        if _is_none(start, path) and not _is_none(one, path) and not path.endswith(".grad"):
            add(path, "born")
    for path, value in three.hosts.items():
        before = two.hosts.get(path)
        earlier = one.hosts.get(path)
        if before is not None and before != value and earlier not in (None, before):
            add(path, "host", before, value)
        elif None not in (before, earlier) and not earlier == before == value:
            add(path, "changes", before, value)
    for path, tensor in three.tensors.items():
        held = two.tensors.get(path)
        if held is not None and _storage(held) != _storage(tensor):
            add(path, "rebound")
    for path in three.tensors:
        cache = path.rpartition("[")[0]
        if path not in one.tensors and one.lengths.get(cache, 0) < three.lengths.get(cache, 0):
            add(cache, "cached", one.lengths.get(cache), three.lengths[cache])
    for path, (cache, size) in one.caches.items():
        if size and path in start.caches and not start.caches[path][1]:
            add(path, "born", 0, size, cache.__wrapped__)
    for path in three.opaque:
        if ran.writer_of(path):  # others are there, and no step moves them
            add(path, "opaque")
    return list(found.values())


def _keys(reach: Reach) -> list[str]:
    return [*reach.tensors, *reach.hosts, *reach.lengths]


def _is_none(reach: Reach, path: str) -> bool:
    if path in reach.tensors or path in reach.lengths:
        return False
    return reach.hosts.get(path, "None") == "None"


def _storage(tensor: Any) -> int:
    pointer: int = tensor.untyped_storage().data_ptr()
    return pointer
