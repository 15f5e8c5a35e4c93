"""State as it was, to put back: what names are bound to, and what tensors hold."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from graphsafe.capture.state import generators
from graphsafe.capture.state.containers import StateError, contents, put_back_host, refill
from graphsafe.capture.state.positions import is_count
from graphsafe.capture.state.walk import reach_of
from graphsafe.capture.targets import users_code

if TYPE_CHECKING:
    import torch

    from graphsafe.capture.device.protocol import Device
    from graphsafe.capture.state.reach import Reach
    from graphsafe.capture.state.undo import Undo
    from graphsafe.capture.targets import Subject

_VALUE_BYTES = 4 << 30
"Tensors up to this many bytes in all are kept by value for putting back; above it, only their digests."


class Bindings:
    """What containers and host generators held; of tensors, which ones there were and not their values."""

    def __init__(self, reach: Reach, clear_caches: bool = True) -> None:
        """What an `lru_cache` holds can only be cleared, not put back. Raises StateError where something cannot even be
        copied."""
        self._reach = reach
        self._containers = [
            (container, contents(container))
            for container in reach.containers
            if clear_caches or type(container) is not functools._lru_cache_wrapper
        ]
        self._generators = {path: generators.state_of(found) for path, found in reach.host_generators.items()}

    def put_back(self) -> None:
        """Raises StateError where a container refuses."""
        for container, before in self._containers:
            _refill(container, before)
        for path, value in self._reach.values.items():
            if is_count(type(value)) and path in self._reach.owners:
                put_back_host(self._reach, path, value)
        for path, state in self._generators.items():
            generators.set_state(self._reach.host_generators[path], state)

    def put_back_container(self, path: str) -> None:
        """The elements of one list, dict or set alone. Raises StateError where it refuses."""
        wanted = self._reach.sized[path]
        for container, before in self._containers:
            if container is wanted:
                _refill(container, before)


def _refill(container: Any, before: Any) -> None:
    try:
        refill(container, before)
    except Exception as error:
        raise StateError(f"a {type(container).__name__} cannot be put back: {type(error).__name__}") from error


class Snapshot:
    """What containers and generators held, and the tensors' values."""

    def __init__(self, device: Device, subject: Subject, clear_caches: bool = True) -> None:
        """Raises StateError where something cannot even be copied."""
        self._device = device
        self._subject = subject
        reach = reach_of(subject)
        self._bindings = Bindings(reach, clear_caches)
        self.tensors = reach.tensors
        self.digests = device.digests(reach.tensors)
        self.values: dict[str, torch.Tensor] = {}
        "Host copies, of as many tensors as the budget allows, the small ones first."
        budget = _VALUE_BYTES
        for path, tensor in sorted(reach.tensors.items(), key=lambda item: item[1].nbytes):
            budget -= tensor.nbytes
            if budget < 0:
                break
            self.values[path] = device.to_host(tensor)

    def put_back(self, undo: Undo | None = None) -> None:
        """Raises StateError where a container refuses, or a tensor too large to be kept was changed. With `undo`, of
        the tensors only what that one knows."""
        self._bindings.put_back()
        if undo is None:
            self.put_back_values(self.tensors)
        else:
            undo.undo()
        if self._subject.reset is not None:
            with users_code("step", "reset failed"):
                self._subject.reset()

    def changed(self) -> list[str]:
        """Tensors that hold other values now."""
        return self._changed(self.tensors)

    def _changed(self, paths: Iterable[str]) -> list[str]:
        now = self._device.digests({path: self.tensors[path] for path in paths})
        return [path for path, digest in now.items() if digest != self.digests[path]]

    def put_back_values(self, paths: Iterable[str]) -> None:
        """Of these tensors, and nothing else. Raises StateError."""
        changed = self._changed(paths)
        for path in changed:
            if path not in self.values:
                continue
            try:
                self._device.store(self.tensors[path], self.values[path])
            except RuntimeError as error:
                raise StateError(f"{path} cannot be put back: {' '.join(str(error).split())[:200]}") from error
        # What lies in the memory of others may have been put back with them.
        for path in self._changed(path for path in changed if path not in self.values):
            raise StateError(f"{path} changed and is too large to be put back")
