"""Handles the Python objects of storages: tells whether they count as holders of the storage, and keeps them alive
through garbage collection.

In torch 2.6 and 2.9 a collection that finds such an object in a cycle takes it apart while the memory lives, and the
storage's next object has no attributes. `torch.save` leaves such a cycle. So the objects are held during collections.
"""

from __future__ import annotations

import functools
import gc
from typing import Any
from weakref import WeakValueDictionary

import torch

_use_count: Any = getattr(torch._C, "_storage_Use_Count", None)
_kept: WeakValueDictionary[int, torch.UntypedStorage] = WeakValueDictionary()
_held: list[torch.UntypedStorage] = []


def holders(number: int) -> int | None:
    """Return how many holders a storage (by its `_cdata`) has besides its Python object, or None if this PyTorch does
    not tell."""
    return None if _use_count is None else int(_use_count(number)) - (1 if _objects_last() else 0)


@functools.cache
def _objects_last() -> bool:
    """Return whether a storage keeps one Python object for life, which then counts as a holder: torch 2.12 does so,
    2.9 does not."""
    if _use_count is None:
        return True
    tensor = torch.empty(0)
    return int(_use_count(tensor.untyped_storage()._cdata)) > 1


def keep_object(storage: torch.UntypedStorage) -> None:
    """Let the storage's Python object, and its attributes, live as long as the memory."""
    if _objects_last():
        return
    if _hold not in gc.callbacks:
        gc.callbacks.append(_hold)
    _kept[int(storage._cdata)] = storage


def _hold(phase: str, _: Any) -> None:
    _held[:] = _kept.values() if phase == "start" else []
