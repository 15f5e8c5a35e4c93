"""Watches how operations read and write memory. Marks memory that a step computes from its inputs, and notes the marked
memory that a later step still reads. A further watcher in this module finds memory that code writes to without
overwriting all of it first.

A mark is an attribute of the Python object of a tensor's storage. So views share the mark, and the mark disappears with
the memory.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from graphsafe.capture.device.modes import OperationMode
from graphsafe.capture.device.structures import by_schema, is_written, memory_key, reads_values, tensors_in

_MARK = "_graphsafe_from_inputs"
_OVERWRITES = frozenset({"aten::copy_", "aten::zero_", "aten::fill_"})
"Operations that write all elements of their tensor and read none."


class _Watching(OperationMode, ABC):  # type: ignore[no-untyped-call]
    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if isinstance(func, torch._ops.OpOverload) and not func.is_view:
            with torch._C.DisableTorchFunction():
                written = [value for argument, value in by_schema(func, args, kwargs) if is_written(argument)]
                self._see(func, _storages([*args, *kwargs.values()]), _storages(written), _storages(result))
        return result

    @abstractmethod
    def _see(self, func: Any, given: dict[int, Any], written: dict[int, Any], results: dict[int, Any]) -> None:
        """Handle an operation that has run. The arguments are the storages that the operation was given, wrote and
        returned."""


class FromInputs(_Watching):
    """Marks memory whose values are computed from those of the inputs."""

    def __init__(self, inputs: Iterable[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        with torch._C.DisableTorchFunction():
            for storage in _storages(list(inputs)).values():
                setattr(storage, _MARK, False)

    def _see(self, func: Any, given: dict[int, Any], written: dict[int, Any], results: dict[int, Any]) -> None:
        overwrites = func._schema.name in _OVERWRITES
        read = [storage for key, storage in given.items() if not (overwrites and key in written)]
        follows = reads_values(func) and any(hasattr(storage, _MARK) for storage in read)
        for key, storage in (written | results).items():
            if follows:
                setattr(storage, _MARK, key not in given)  # the mark is true for memory that the step itself allocates
            elif overwrites and hasattr(storage, _MARK):
                delattr(storage, _MARK)


class StillRead(_Watching):
    """Notes the marked memory that operations read but do not write."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._read: dict[int, Any] = {}
        self._written: set[int] = set()

    def _see(self, func: Any, given: dict[int, Any], written: dict[int, Any], results: dict[int, Any]) -> None:
        self._written.update(written)
        self._read.update((key, storage) for key, storage in given.items() if getattr(storage, _MARK, False))

    def is_carried(self, tensor: torch.Tensor) -> bool:
        """Return whether the tensor was computed from the inputs of an earlier step, and the current step only reads
        it."""
        return not self.carried.isdisjoint(_storages(tensor))

    @property
    def carried(self) -> set[int]:
        return self._read.keys() - self._written


class Given(_Watching):
    """Notes the memory that operations are given. Weak references ensure that no other memory gets the same
    identity."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: set[StorageWeakRef] = set()

    def _see(self, func: Any, given: dict[int, Any], written: dict[int, Any], results: dict[int, Any]) -> None:
        self.found.update(StorageWeakRef(storage) for storage in given.values())  # type: ignore[no-untyped-call]


class PartsKept(OperationMode):  # type: ignore[no-untyped-call]
    """Finds the tensors that code writes to and that may still keep earlier values: their first access is not a write
    of the whole memory."""

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._fresh = {memory_key(one): one.untyped_storage().nbytes() for one in tensors}
        "Memory that has not been accessed yet -> its size in bytes."
        self._kept: set[int] = set()
        "Memory whose first access was not a write of the whole memory."
        self.found: set[int] = set()
        "The keys of memory in `_kept` that was also written."

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, torch._ops.OpOverload) and not func.is_view:
            with torch._C.DisableTorchFunction():
                for argument, value in by_schema(func, args, kwargs):
                    for tensor in tensors_in(value):
                        self._access(memory_key(tensor), tensor, func._schema.name, is_written(argument))
        return func(*args, **kwargs)

    def _access(self, key: int, tensor: torch.Tensor, operation: str, writes: bool) -> None:
        size = self._fresh.pop(key, None)
        if size is not None and not (writes and operation in _OVERWRITES and tensor.nbytes == size):
            self._kept.add(key)
        if writes and key in self._kept:
            self.found.add(key)


def _storages(value: Any) -> dict[int, Any]:
    """Return the storages of all tensors in a value, by memory key."""
    found = {}
    for tensor in tensors_in(value):
        # A wrapper subclass has no memory of its own.
        with contextlib.suppress(RuntimeError, NotImplementedError):
            found[memory_key(tensor)] = tensor.untyped_storage()
    return found
