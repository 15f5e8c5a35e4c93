"""Copies of state. The state is put back from these copies before each round, or between two calls of a refresh."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphsafe.capture.child.lines.carried import PartsKept
from graphsafe.capture.child.session import Session
from graphsafe.capture.child.state import copies_of, reachable_state
from graphsafe.capture.device.structures import memory_key


class DeviceStateCopy:
    """A copy of state on the device, made when this object is created."""

    def __init__(self, session: Session, paths: Iterable[str]) -> None:
        self._session = session
        reached = reachable_state(session.subject).tensors
        # Keep no other tensors alive, so that a tensor which a refresh drops is freed.
        self._tensors = {path: reached[path] for path in paths if path in reached}
        self._values = copies_of(session.device, self._tensors)
        self.is_refreshed = False
        "Whether putting this state back undoes something that a refresh wrote."

    def refresh(self, number: int) -> list[str]:
        """Call the refresh of a round. Return the float tensors of which the refresh has written only a part. From now
        on these tensors are not put back, so they keep everything that the refresh wrote, as in a program. Integers are
        still put back, because a position could otherwise run beyond its buffer."""
        with PartsKept(self._tensors.values()) as seen:
            self._session.put_inputs(number)
        written = {path: one for path, one in self._tensors.items() if memory_key(one) in seen.found}
        parts = [path for path, one in written.items() if one.is_floating_point()]
        self.is_refreshed = self.is_refreshed or len(parts) < len(written)
        self.release(parts)
        return parts

    def release(self, paths: Sequence[str]) -> None:
        """Stop putting these tensors back."""
        for path in paths:
            del self._values[path], self._tensors[path]

    def put_back(self, in_order: bool = False) -> None:
        """Put the values back. With `in_order`, the device puts back its own memory, after its pending work. Memory of
        the host then stays as it is, because pending work may write it."""
        device = self._session.device
        for path, values in self._values.items():
            tensor = self._tensors[path]
            if in_order and not (device.is_on_device(tensor) and device.is_on_device(values)):
                continue
            if tensor.shape == values.shape:  # the refresh may have changed the size
                device.store(tensor, values)
