"""The memory of a host tensor, without numpy, which torch does not need either."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def tensor_bytes(tensor: torch.Tensor) -> bytes:
    """Of a contiguous tensor on the CPU."""
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())
