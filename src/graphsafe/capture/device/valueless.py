"""Marks tensors whose values are not computed: shapes mode knows their shapes, dtypes and shared memory.

The mark sits on the Python object of the tensor's storage, so views share it. Most marked memory lies on torch's meta
device and takes no room. Real memory that is marked keeps its room, but its values no longer count.
"""

from __future__ import annotations

import torch

_MARK = "_graphsafe_valueless"


def drop_values(tensor: torch.Tensor) -> None:
    """Mark a tensor's memory as having unknown values. Call it with torch functions disabled."""
    if tensor.layout is torch.strided:
        setattr(tensor.untyped_storage(), _MARK, True)


def is_valueless(tensor: torch.Tensor) -> bool:
    """Return whether the values of a tensor were not computed. Call it with torch functions disabled."""
    if tensor.layout is not torch.strided:
        return False
    try:
        return hasattr(tensor.untyped_storage(), _MARK)
    except (RuntimeError, NotImplementedError):  # a wrapper subclass has no memory of its own
        return False


def memory_key(tensor: torch.Tensor) -> int:
    """Return a number that identifies a tensor's memory: its address, or a number for memory without an address."""
    storage = tensor.untyped_storage()
    return int(storage.data_ptr() or storage._cdata)
