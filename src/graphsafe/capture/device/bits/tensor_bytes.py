"""A tensor as bytes and as text, without numpy, which torch does not need either."""

from __future__ import annotations

import ctypes
import hashlib

import torch


def layout_text(tensor: torch.Tensor) -> str:
    """Return the dtype and shape as text: `float32[2, 8]`."""
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def tensor_bytes(tensor: torch.Tensor) -> bytes:
    """Return the memory of a contiguous tensor on the CPU."""
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())


def bytes_digest(tensor: torch.Tensor) -> str:
    """Hash the memory of a contiguous tensor on the CPU without copying it: state may be gigabytes."""
    memory = (ctypes.c_char * (tensor.numel() * tensor.element_size())).from_address(tensor.data_ptr())
    return hashlib.sha256(memory).hexdigest()
