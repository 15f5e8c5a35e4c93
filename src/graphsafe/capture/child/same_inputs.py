"""Gives a step the values that the refresh wrote for the same step in another process.

A refresh may fill a buffer from something that no seed determines: a clock, the position of a generator, or the
system's random numbers. In this case, two processes run a step on different values, and a difference of their results
would prove nothing. So the values that the refresh wrote are stored with the results of a step. When another process
runs this step for a comparison with these results, the step is given the stored values.

The stored values must not hide a fault: a refresh may copy values that the step's Python code has set, and replays do
not run this code. So a stored value is given only if the refresh writes different values when it is called twice in the
same state.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Set
from contextlib import nullcontext

import torch

from graphsafe.capture.child.compare import difference
from graphsafe.capture.child.copied_state import DeviceStateCopy
from graphsafe.capture.child.lines.clocks import A_DAY, clocks_ahead
from graphsafe.capture.child.session import Session, host_values
from graphsafe.capture.child.state import Bindings, StateError, reach_with_refresh, reachable_state, smallest
from graphsafe.capture.child.targets import TargetError

_MOST_BYTES = 2**17
"For each step, values are stored up to this total number of bytes. The smallest tensors are stored first."


def marks_of(tensors: Mapping[str, torch.Tensor]) -> dict[str, tuple[int, int] | None]:
    """Return the identity and the version of each tensor, or None for a tensor that counts no versions."""
    return {path: None if one.is_inference() else (id(one), one._version) for path, one in tensors.items()}


def put_and_marked(session: Session, k: int) -> set[str]:
    """Set the inputs of step `k`. Return the tensors that the refresh wrote or bound."""
    before = marks_of(reachable_state(session.subject).tensors)
    session.put_inputs(k)
    after = marks_of(reachable_state(session.subject).tensors)
    return {path for path, mark in after.items() if before.get(path) != mark}


def given_values(session: Session, paths: Iterable[str]) -> dict[str, torch.Tensor]:
    """Return the values of small tensors on the host."""
    wanted = set(paths)
    if not wanted:
        return {}
    tensors = reachable_state(session.subject).tensors
    small = smallest({path: tensors[path] for path in sorted(wanted & tensors.keys())}, _MOST_BYTES)
    return host_values(session.device, small)


class SameInputs:
    """Gives the steps of one process the values that the refresh wrote in another run."""

    def __init__(self, session: Session, refreshed: Set[str]) -> None:
        self._session = session
        self._refreshed = refreshed
        "The tensors that the refresh writes."
        self._tried: set[str] = set()
        self.by_chance: set[str] = set()
        "Tensors to which the refresh writes other values each time that it is called in the same state."
        self.doubt: str | None = None
        "The reason why differing results prove nothing; None if there is no such reason."

    def give(self, k: int, wanted: Mapping[str, torch.Tensor]) -> None:
        """Give these values to the step after call `k` of the refresh. A tensor gets its value only if chance alone
        explains why the refresh has written another value."""
        if not wanted or self._session.subject.refresh is None or self._session.ranks.size > 1:
            return
        other = self._differing(wanted)
        new = other - self._tried
        if new:
            self._tried |= new
            self.by_chance |= self._changing(k, new)
        left = other - self.by_chance
        if left and self.doubt is None and threading.active_count() > 1:
            self.doubt = f"threads run beside the step, and two processes gave it different values of {min(left)}"
        self.store({path: wanted[path] for path in other & self.by_chance})

    def store(self, values: Mapping[str, torch.Tensor]) -> None:
        tensors = reachable_state(self._session.subject).tensors if values else {}
        for path, value in values.items():
            self._session.device.store(tensors[path], value)

    def _differing(self, wanted: Mapping[str, torch.Tensor]) -> set[str]:
        tensors, device = reachable_state(self._session.subject).tensors, self._session.device
        return {
            path
            for path, value in wanted.items()
            if path in tensors and value.shape == tensors[path].shape and value.dtype == tensors[path].dtype
            if not difference(device.to_host(tensors[path]), value).equal
        }

    def _changing(self, k: int, paths: Set[str]) -> set[str]:
        """Call the refresh two more times in the same state, once with clocks set ahead. Return the tensors whose
        values differ."""
        session, found = self._session, list[dict[str, torch.Tensor]]()
        kept = DeviceStateCopy(session, self._refreshed)
        try:
            bindings = Bindings(reach_with_refresh(session.subject))
            for clocks in (nullcontext(), clocks_ahead(A_DAY, ends_timers=False)):
                try:
                    with clocks:
                        session.put_inputs(k)
                    found.append(given_values(session, paths))
                finally:
                    bindings.put_back()
                    kept.put_back()
        except (StateError, TargetError):
            return set()
        return {path for path in paths if not difference(found[0].get(path), found[1].get(path)).equal}
