"""Tags each tensor with the index of its simulated device.

The tag is an attribute of the storage's Python object, which PyTorch keeps as long as the storage exists. So views,
detached aliases and parameters share one tag, and the tag is deleted with the memory. As long as a tag exists, its
bytes are counted in a ledger. `memory_allocated` returns the ledger's total.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakValueDictionary

import torch

from graphsafe.capture.device.protocol import MemoryEvent
from graphsafe.capture.device.structures import sparse_parts, tensors_in
from graphsafe.capture.shared.frames import running_line

_use_count: Any = getattr(torch._C, "_storage_Use_Count", None)
_kept: WeakValueDictionary[int, torch.UntypedStorage] = WeakValueDictionary()
_held: list[torch.UntypedStorage] = []


def holders(number: int) -> int | None:
    """Return how many references a storage has besides its Python object. Return None if PyTorch does not report the
    number."""
    return None if _use_count is None else int(_use_count(number)) - (1 if _objects_last() else 0)


@functools.cache
def _objects_last() -> bool:
    """Return whether a storage keeps the same Python object as long as the storage exists. If so, this object is one of
    the references to the storage. Torch 2.12 keeps one object; torch 2.9 does not."""
    if _use_count is None:
        return True
    tensor = torch.empty(0)
    return int(_use_count(tensor.untyped_storage()._cdata)) > 1


def keep_object(storage: torch.UntypedStorage) -> None:
    """Keep the storage's Python object, with its attributes, as long as the memory exists.

    In torch 2.6 and 2.9, a garbage collection clears such an object if the object is in a reference cycle, although the
    memory still exists. The storage's next Python object then has no attributes. `torch.save` leaves such a cycle. So
    graphsafe holds another reference to each object during a collection.
    """
    if _objects_last():
        return
    if _hold not in gc.callbacks:
        gc.callbacks.append(_hold)
    _kept[int(storage._cdata)] = storage


def _hold(phase: str, _: Any) -> None:
    _held[:] = _kept.values() if phase == "start" else []


HOST = -1
"The index that stands for the CPU."
_ATTRIBUTE = "_graphsafe_tag"
_PINNED = "_graphsafe_pinned"


class Ledger:
    """The bytes that are in use on one simulated device."""

    __slots__ = ("allocated", "on_memory_event", "peak")

    def __init__(self) -> None:
        self.allocated = 0
        self.peak = 0
        self.on_memory_event: Callable[[MemoryEvent], None] | None = None
        "A function that is called for each allocation and release; None if nothing needs these calls."

    def take(self, block: int, nbytes: int) -> None:
        self.allocated += nbytes
        self.peak = max(self.peak, self.allocated)
        if self.on_memory_event is not None and nbytes:
            self.on_memory_event(MemoryEvent(block, nbytes, running_line()))

    def give_back(self, block: int, nbytes: int) -> None:
        self.allocated -= nbytes
        if self.on_memory_event is not None:
            self.on_memory_event(MemoryEvent(block, 0))


class Tag:
    __slots__ = ("__weakref__", "doubt", "index", "ledger", "nbytes", "session")

    def __init__(self, index: int, nbytes: int, ledger: Ledger, session: object) -> None:
        self.index = index
        self.nbytes = nbytes
        self.ledger = ledger
        self.session = session
        "The capture in whose pool the storage was allocated, or `None`."
        self.doubt: str | None = None
        "An unknown effect on which the values in this storage depend, or `None`."
        ledger.take(id(self), nbytes)

    def __del__(self) -> None:
        self.ledger.give_back(id(self), self.nbytes)


def storages(tensor: torch.Tensor) -> list[Any]:
    """Return the storages of a tensor. A sparse tensor has several. Call it with torch functions disabled."""
    if tensor.layout is torch.strided:
        try:
            return [tensor.untyped_storage()]
        except RuntimeError:
            functorch: Any = torch._C._functorch
            is_wrapped = functorch.is_functorch_wrapped_tensor(tensor)  # by `vmap` or `grad`
            return storages(functorch.get_unwrapped(tensor)) if is_wrapped else []
    return [part.untyped_storage() for part in (sparse_parts(tensor) or {}).values()]


def tag_of(tensor: torch.Tensor) -> Tag | None:
    for storage in storages(tensor):
        tag = tag_of_storage(storage)
        if tag is not None:
            return tag
    return None


def tag_of_storage(storage: torch.UntypedStorage) -> Tag | None:
    """Return the tag of memory on a simulated device; None for host memory."""
    tag: Tag | None = getattr(storage, _ATTRIBUTE, None)
    return tag


def tags_of(tensors: Iterable[torch.Tensor]) -> list[Tag]:
    found = (tag_of(tensor) for tensor in tensors)
    return [tag for tag in found if tag is not None]


def index_of(tensor: torch.Tensor) -> int:
    """Return the index of a tensor's simulated device, or `HOST`."""
    tag = tag_of(tensor)
    return HOST if tag is None else tag.index


def max_device_index(value: Any) -> int:
    """Return the highest device index among the tensors inside a value; `HOST` if none is on a device."""
    with torch._C.DisableTorchFunction():
        return max((index_of(tensor) for tensor in tensors_in(value)), default=HOST)


def put_tag(tensor: torch.Tensor, index: int, ledger: Ledger, session: object = None) -> int:
    """Tag those storages of a tensor that have no tag. Return the number of bytes that this adds on the device (0 for a
    view)."""
    new = 0
    for storage in storages(tensor):
        if tag_of_storage(storage) is None:
            nbytes = storage.nbytes()
            setattr(storage, _ATTRIBUTE, Tag(index, nbytes, ledger, session))
            keep_object(storage)
            new += nbytes
    return new


def pin(tensor: torch.Tensor, session: object = None) -> None:
    """Mark a tensor as pinned. `session` is the capture under way, if there is one."""
    for storage in storages(tensor):
        setattr(storage, _PINNED, (session,))
        keep_object(storage)


def is_pinned(tensor: torch.Tensor) -> bool:
    return any(hasattr(storage, _PINNED) for storage in storages(tensor))


def born_in(tensor: torch.Tensor, session: object) -> bool:
    """Return whether the tensor's memory was allocated during this capture."""
    for storage in storages(tensor):
        tag = tag_of_storage(storage)
        if (tag.session if tag is not None else getattr(storage, _PINNED, (None,))[0]) is session:
            return True
    return False
