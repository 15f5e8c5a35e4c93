"""Distinguishes memory that code overwrites completely from memory of which code reads or keeps a part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from graphsafe.capture.device.modes import OperationMode
from graphsafe.capture.device.structures import by_schema, is_written, memory_key, tensors_in

_WHOLE = frozenset({"aten::copy_", "aten::zero_", "aten::fill_"})
"Operations that write all elements of their tensor and read none."


class PartsKept(OperationMode):  # type: ignore[no-untyped-call]
    """Notes the tensors that code writes to, but that may keep earlier values: the first access is not a write of the
    whole memory."""

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._fresh = {memory_key(one): one.untyped_storage().nbytes() for one in tensors}
        "Memory that was not accessed yet -> its size in bytes."
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
        if size is not None and not (writes and operation in _WHOLE and tensor.nbytes == size):
            self._kept.add(key)
        if writes and key in self._kept:
            self.found.add(key)
