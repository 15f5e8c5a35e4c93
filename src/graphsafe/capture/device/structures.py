"""The values that operations take and return: the tensors inside them, and the arguments by the operation's schema."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch


def tensors_in(value: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    _collect((value,), found)
    return found


def _collect(items: Iterable[Any], found: list[torch.Tensor]) -> None:
    for item in items:
        if isinstance(item, torch.Tensor):
            found.append(item)
        elif isinstance(item, (list, tuple)):
            _collect(item, found)
        elif isinstance(item, dict):
            _collect(item.values(), found)


def changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return the same structure of lists, tuples and dicts with each other value changed."""
    if isinstance(value, (list, tuple)):
        return type(value)(changed(item, change) for item in value)
    if isinstance(value, dict):
        return {key: changed(item, change) for key, item in value.items()}
    return change(value)


def each_tensor(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return the same structure with each tensor changed."""
    return changed(value, lambda leaf: change(leaf) if isinstance(leaf, torch.Tensor) else leaf)


def by_schema(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield each argument of an operation's schema with the value that a call gives it, or None."""
    for position, argument in enumerate(func._schema.arguments):
        yield argument, args[position] if position < len(args) else kwargs.get(argument.name)


def is_written(argument: Any) -> bool:
    """Return whether the operation writes this argument of its schema."""
    return argument.alias_info is not None and bool(argument.alias_info.is_write)


@functools.cache
def takes_device(func: Any) -> bool:
    return any(argument.name == "device" for argument in func._schema.arguments)


@functools.cache
def is_wrapper_class(kind: Any) -> bool:
    """Return whether the class is a subclass with its own operations. Other subclasses use PyTorch's kernels on the
    memory that they report."""
    # read from `type`, because a metaclass may run code of its own
    namespace_of = type.__dict__["__dict__"].__get__
    own = next(base for base in type.__dict__["__mro__"].__get__(kind) if "__torch_dispatch__" in namespace_of(base))
    if own is torch.Tensor:
        return False
    return namespace_of(own)["__torch_dispatch__"] is not torch._C._disabled_torch_dispatch_impl
