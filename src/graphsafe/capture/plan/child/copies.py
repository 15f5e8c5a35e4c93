"""Copies between the tensors of a captured pass and later tensors. Also restores the modes that `with` blocks and
decorators set around a break: a replay does not run these statements, so each break sets the modes again.

Emitted code contains a copy of this module's source, because emitted code does not import graphsafe.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import torch
from torch.utils._pytree import tree_map

# -- begin --


def _modes() -> tuple[bool, bool, tuple[tuple[bool, torch.dtype], ...]]:
    """Return whether inference mode and grad mode are on, and for each device whether autocast is on, with its
    dtype."""
    casts = tuple((torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in ("cuda", "cpu"))
    return torch.is_inference_mode_enabled(), torch.is_grad_enabled(), casts


def surroundings() -> Callable[[], AbstractContextManager[Any]]:
    """Return a function that makes a context in which the present modes are set again.

    If these modes are already set, entering the block costs nothing.
    """
    then = _modes()
    inference, grad, casts = then

    def again() -> AbstractContextManager[Any]:
        block = ExitStack()
        now = _modes()
        if now == then:
            return block
        if now[0] != inference:
            block.enter_context(torch.inference_mode(inference))
        block.enter_context(torch.set_grad_enabled(grad))
        for kind, (is_on, dtype), other in zip(("cuda", "cpu"), casts, now[2], strict=True):
            if (is_on, dtype) != other:
                block.enter_context(torch.autocast(kind, dtype=dtype, enabled=is_on))
        return block

    return again


def storage_address(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError):  # the tensor is sparse, or has no memory
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


def copy_all(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Copy each source to its target. A source in the memory of a target is cloned first, so that no copy overwrites
    it."""
    targets = {storage_address(target) for target, _ in pairs}
    for target, source in [(target, new.clone() if storage_address(new) in targets else new) for target, new in pairs]:
        copy_values(target, source)


def cloned_tensors(value: Any) -> Any:
    """Return the same structure with new tensors. The new tensors are contiguous, because the strides of memory that
    may change later must not be kept."""

    def clone(leaf: Any) -> Any:
        if not issubclass(type(leaf), torch.Tensor):
            return leaf
        return leaf.clone(memory_format=torch.contiguous_format) if leaf.layout == torch.strided else leaf.clone()

    return tree_map(clone, value)
