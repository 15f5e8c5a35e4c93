"""Works on the bits of tensors: returns their bytes and digests, and moves values by one unit in the last place.

This module does not need numpy, because torch works without numpy too.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib

import torch

NAN_BYTE = 0xFF
"A byte that gives NaN in every floating-point dtype when it is repeated."


def nudge(tensor: torch.Tensor, up: bool) -> None:
    """In place, move every finite number other than zero by one unit in the last place. Neighbours move in opposite
    directions.

    The bits of a float, read as an integer, grow with the float's magnitude. So adding one to this integer moves the
    float by one unit away from zero. A tensor whose dtype or layout does not allow this (float8, expanded memory) stays
    unchanged.
    """
    plain = tensor.detach()
    if plain.is_complex():
        plain = torch.view_as_real(plain)
    if not plain.is_floating_point() or plain.numel() == 0:
        return
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}.get(plain.element_size())
    if bits is None:
        return
    with torch.no_grad(), torch.inference_mode(tensor.is_inference()), contextlib.suppress(RuntimeError):
        free = torch.isfinite(plain) & (plain != 0) & (plain.abs() < torch.finfo(plain.dtype).max)
        step = torch.arange(plain.numel(), device=plain.device, dtype=bits).remainder(2) * 2 - 1
        step = (step if up else -step).reshape(plain.shape)
        plain.view(bits).add_(torch.where(free, step, torch.zeros_like(step)))


def poison(tensor: torch.Tensor) -> None:
    """Fill a tensor, in place, with values that no step computes: NaN, or a value near the dtype's largest."""
    plain = tensor.detach()
    if plain.dtype == torch.bool:
        plain.logical_not_()
    elif plain.is_floating_point() or plain.is_complex():
        plain.fill_(float("nan"))
    else:
        plain.fill_(torch.iinfo(plain.dtype).max - 3)


def layout_text(tensor: torch.Tensor) -> str:
    """Return the dtype and shape as a string: `float32[2, 8]`."""
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def tensor_bytes(tensor: torch.Tensor) -> bytes:
    """Return the bytes of a contiguous tensor on the CPU."""
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())


def bytes_digest(tensor: torch.Tensor) -> str:
    """Hash the memory of a contiguous tensor on the CPU. The memory is not copied, because state may be gigabytes."""
    memory = (ctypes.c_char * (tensor.numel() * tensor.element_size())).from_address(tensor.data_ptr())
    return hashlib.sha256(memory).hexdigest()
