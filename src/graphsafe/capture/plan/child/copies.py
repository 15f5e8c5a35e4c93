"""Copies between the tensors of a captured pass and later ones.

Emitted code has a copy of this text; it imports nothing of graphsafe.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_map

# -- begin --


def storage_address(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError):  # a sparse tensor, or one without memory
        return 0


def repeated_dimensions(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return the dimensions along which a tensor is expanded, so that one element stands for all."""
    if tensor.layout != torch.strided:
        return ()
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return tuple(at for at, (size, stride) in enumerate(sizes) if stride == 0 and size > 1)


def copy_values(target: torch.Tensor, source: torch.Tensor) -> None:
    with torch.no_grad(), torch.inference_mode(target.is_inference()):
        target, source = target.detach(), source.detach()
        for dimension in repeated_dimensions(target):
            target, source = target.narrow(dimension, 0, 1), source.narrow(dimension, 0, 1)
        target.copy_(source)


def cloned_tensors(value: Any) -> Any:
    """Return the same structure over new tensors, whose strides do not follow memory that may change later."""

    def clone(leaf: Any) -> Any:
        if not issubclass(type(leaf), torch.Tensor):
            return leaf
        return leaf.clone(memory_format=torch.contiguous_format) if leaf.layout == torch.strided else leaf.clone()

    return tree_map(clone, value)
