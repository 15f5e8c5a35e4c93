"""The state at one moment, to be put back later: the bindings of names, and the values of tensors. Also undoes the
changes of steps quickly and many times, for measurements and long runs."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from graphsafe.capture.child.state import generators
from graphsafe.capture.child.state.containers import OVER_SEQUENCES, Slot, StateError, contents, put_back_host, refill
from graphsafe.capture.child.state.objects import defined_at
from graphsafe.capture.child.state.reach import ReachableState
from graphsafe.capture.child.state.reachable import reach_with_refresh, reachable_state
from graphsafe.capture.child.targets import Subject, users_code
from graphsafe.capture.device.modes import outside_modes
from graphsafe.capture.device.protocol import Device

_SHARE_OF_FREE = 0.25
"Copies stay on the host if they would take more than this share of the device's free memory."


def copies_of(device: Device, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copy tensors. The copies are on the device if they fit there."""
    free = device.memory().free
    fit = free is None or sum(tensor.nbytes for tensor in tensors.values()) < _SHARE_OF_FREE * free
    return {path: device.copied(tensor) if fit else device.to_host(tensor) for path, tensor in tensors.items()}


def smallest(tensors: Mapping[str, torch.Tensor], most: int) -> dict[str, torch.Tensor]:
    """Return the smallest tensors, in the order of their size. Together, these tensors have at most `most` bytes."""
    ordered = sorted(tensors.items(), key=lambda item: item[1].nbytes)
    sums = itertools.accumulate(tensor.nbytes for _, tensor in ordered)
    return {path: tensor for (path, tensor), held in zip(ordered, sums, strict=True) if held <= most}


def call_reset(subject: Subject) -> bool:
    """Call the user's `reset`, and return whether there is one. Raises TargetError if it fails."""
    if subject.reset is None:
        return False
    with users_code("step", "reset failed", defined_at(subject.reset)):
        subject.reset()
    return True


def undo_of(device: Device, before: Snapshot) -> Callable[[], None]:
    """Undo the changes since `before`, and return a function that undoes such changes again. The function holds the
    tensors weakly, so that memory that the target drops is freed. Raises StateError."""
    changed = [path for path in before.changed() if path in before.values]
    before.put_back_values(changed)
    copies = copies_of(device, {path: before.tensors[path] for path in changed})
    kept = [(weakref.ref(before.tensors[path]), values) for path, values in copies.items()]

    def undo() -> None:
        for reference, values in kept:
            tensor = reference()
            if tensor is not None:
                device.store(tensor, values)

    return undo


_VALUE_BYTES = 4 << 30
"Tensors are kept by value up to this total number of bytes. Beyond it, only their digests are kept."


class Bindings:
    """The content of containers, the state of host generators, and the tensor objects without their values, but with
    their `requires_grad`."""

    def __init__(self, reach: ReachableState, clear_caches: bool = False) -> None:
        """Read the bindings. The content of an `lru_cache` cannot be put back; the cache can only be cleared, if
        `clear_caches` is set. Raises StateError if something cannot be copied."""
        self.reach = reach
        self._containers = [
            (container, contents(container))
            for container in reach.containers
            if clear_caches or type(container) is not functools._lru_cache_wrapper
        ]
        self._generators = {path: generators.state_of(found) for path, found in reach.host_generators.items()}
        with outside_modes():
            self._leaves = [(one, one.requires_grad) for one in reach.tensors.values() if one.is_leaf]
        "The tensors that code may freeze or unfreeze, with their current `requires_grad`."
        self.refused: set[str] = set()
        "The reasons why containers could not be put back, such as an iterator at its end."
        self.keeps_results = False
        """Whether one of these containers may keep results of step 1. A repetition of step 1 would then use them. An
        iterator keeps none."""

    def put_back(self) -> None:
        """Put back all containers that accept it, and note those that refuse. Raises StateError if an `itertools.count`
        refuses.

        Some other state is not put back either, for example running generators and files. So no caller may assume that
        a repeated step starts exactly as the first one did. For this reason, replays are compared with the first steps
        of a process, and repeated steps only show how far results differ by chance.
        """
        for container, before in self._containers:
            try:
                _refill(container, before)
            except StateError as error:
                self.refused.add(str(error))
                self.keeps_results = self.keeps_results or type(container) not in OVER_SEQUENCES
        for path, value in self.reach.values.items():
            if type(value) is itertools.count and path in self.reach.owners:
                put_back_host(self.reach, path, value)
        for path, state in self._generators.items():
            generators.set_state(self.reach.host_generators[path], state)
        with outside_modes():
            for tensor, is_trained in self._leaves:
                if tensor.is_leaf and tensor.requires_grad is not is_trained:
                    tensor.requires_grad_(is_trained)
                    if not is_trained:
                        tensor.grad = None  # the walk reads the gradients of trained tensors only

    def put_back_container(self, path: str) -> None:
        """Put back the elements of one list, dict or set. Raises StateError if the container refuses."""
        wanted = self.reach.sized[path]
        for container, before in self._containers:
            if container is wanted:
                _refill(container, before)


def _refill(container: Any, before: Any) -> None:
    try:
        refill(container, before)
    except Exception as error:
        kind = type(container.of if type(container) is Slot else container)
        raise StateError(f"a {kind.__name__} cannot be restored: {type(error).__name__}") from error


class Snapshot:
    """The content of containers and generators, and the values of tensors."""

    def __init__(self, device: Device, subject: Subject, clear_caches: bool = True) -> None:
        """Take the snapshot. Raises StateError if something cannot be copied."""
        self._device = device
        self._subject = subject
        reach = reachable_state(subject)
        bound = reach if subject.refresh is None else reach_with_refresh(subject)
        self.bindings = Bindings(bound, clear_caches)
        self.tensors = reach.tensors
        self.digests = device.digests(reach.tensors)
        small = smallest(reach.tensors, _VALUE_BYTES)
        self.values = {path: device.to_host(tensor) for path, tensor in small.items()}
        "Host copies of tensors. The smallest tensors are copied first, until the limit of bytes is reached."

    def put_back(self, put_back_tensors: Callable[[], None] | None = None) -> None:
        """Put back containers, then tensors, and call the user's `reset`. If the function `put_back_tensors` is given,
        it puts the tensors back. Raises StateError if a tensor that was too large to be kept has changed."""
        self.bindings.put_back()
        (put_back_tensors or self.put_back_values)()
        call_reset(self._subject)

    def changed(self, paths: Iterable[str] | None = None) -> list[str]:
        """Return which of these tensors have changed values. By default, all tensors are looked at."""
        now = self._device.digests({path: self.tensors[path] for path in (self.tensors if paths is None else paths)})
        return [path for path, digest in now.items() if digest != self.digests[path]]

    def put_back_values(self, paths: Iterable[str] | None = None) -> None:
        """Put back the values of these tensors, by default of all tensors. Raises StateError."""
        changed = self.changed(paths)
        for path in changed:
            if path not in self.values:
                continue
            try:
                tensor, values = self.tensors[path], self.values[path]
                if tensor.shape != values.shape:
                    with torch.no_grad(), outside_modes():
                        tensor.resize_(values.shape)  # a step has changed the size, as `out=` does
                self._device.store(tensor, values)
            except RuntimeError as error:
                raise StateError(f"{path} cannot be restored: {' '.join(str(error).split())[:200]}") from error
        # A tensor without a saved value may share memory with a tensor that was put back. Then it has its old values
        # again too.
        for path in self.changed(path for path in changed if path not in self.values):
            raise StateError(f"{path} changed and is too large to be restored")
