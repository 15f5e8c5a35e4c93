"""Runs an operation on the CPU in place of the GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from graphsafe.capture.device.structures import each_tensor, tensors_in
from graphsafe.optable import Op

_WIDER = {
    **dict.fromkeys((torch.float16, torch.bfloat16), torch.float32),
    **dict.fromkeys((torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64), torch.float64),
}


def perform(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run an operation. If the CPU has no kernel for the dtype but a GPU has one (`histc` of integers), run it in a
    wider dtype."""
    try:
        return func(*args, **kwargs)
    except RuntimeError as error:  # newer versions raise NotImplementedError, a subclass of it
        if func._schema.is_mutable or "not implemented for" not in str(error):
            raise
        narrow = {tensor.dtype for tensor in tensors_in(list(args)) if tensor.dtype in _WIDER}
        if len(narrow) != 1:
            raise
        dtype = narrow.pop()
        try:
            result = func(*_cast(args, dtype, _WIDER[dtype]), **_cast(dict(kwargs), dtype, _WIDER[dtype]))
        except RuntimeError:
            raise error from None
        return _cast(result, _WIDER[dtype], dtype)


def refuse_missing_kernel(func: Any, entry: Op | None, inputs: Sequence[torch.Tensor]) -> None:
    """Raise NotImplementedError if, according to the op table, CUDA has no kernel for the dtype of the first tensor."""
    if entry is None or not entry.no_kernel or not inputs or not inputs[0].numel():
        return
    dtype = str(inputs[0].dtype).removeprefix("torch.")
    if dtype in entry.no_kernel:
        # PyTorch raises this class of error for a missing dtype, and a step may catch it.
        raise NotImplementedError(
            f'"{func._schema.name}" has no CUDA kernel for {dtype} (measured on an H200, torch 2.11)'
        )


def _cast(value: Any, old: torch.dtype, new: torch.dtype) -> Any:
    return each_tensor(value, lambda tensor: tensor.to(new) if tensor.dtype == old else tensor)
