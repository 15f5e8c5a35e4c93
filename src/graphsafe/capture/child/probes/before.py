"""Everything that a step can reach right before a capture, and what has changed before a later capture."""

from __future__ import annotations

from typing import Any

from graphsafe.capture.child.session import Session
from graphsafe.capture.child.state import Bindings, ReachableState, reachable_state
from graphsafe.capture.device.structures import memory_key
from graphsafe.report.probes.twin import Cause


class PreCaptureState:
    """Everything that the step can reach right before a capture. This state serves to find changes up to a later
    capture, and to put bindings back."""

    def __init__(self, session: Session) -> None:
        self.reach: ReachableState = reachable_state(session.subject)
        self.bindings = Bindings(self.reach)
        self.views = self.reach.views()


def changes_between(earlier: PreCaptureState, later: PreCaptureState) -> list[Cause]:
    """Return what changed between two captures: host values, the memory of tensors, and the lengths of containers."""
    before, after = earlier.reach, later.reach
    paths = {_memory(view): path for path, view in earlier.views.items()}
    taken = {path: paths.get(_memory(view)) for path, view in later.views.items()}
    found = [
        Cause("attribute", path, before.hosts[path], text)
        for path, text in after.hosts.items()
        if path in before.values and path in after.owners and before.hosts.get(path) != text
    ]
    found += [
        Cause("tensor", path, None, _swapped(path, taken))
        for path, view in later.views.items()
        if path in earlier.views and path in after.owners and _memory(earlier.views[path]) != _memory(view)
    ]
    found += [
        Cause("length", path, str(before.lengths[path]), str(length))
        for path, length in after.lengths.items()
        if path in before.sized and before.lengths[path] != length
    ]
    return found


def _swapped(path: str, taken: dict[str, str | None]) -> str | None:
    """Return the other tensor whose former memory this tensor has now. Return None if there is no such tensor, or if
    that tensor has kept its own memory or got new memory. `taken` maps each tensor to the tensor whose former
    memory it has now."""
    other = taken[path]
    return None if other is None or taken.get(other) in (None, other) else other


def _memory(tensor: Any) -> tuple[int, int, int]:
    return memory_key(tensor), tensor.storage_offset(), tensor.numel()
