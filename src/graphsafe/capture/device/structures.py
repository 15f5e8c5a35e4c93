"""Finds the tensors inside the values that operations take and return, and matches arguments to the operation's schema.
Also marks tensors whose values are not computed: in shapes mode, only their shapes, dtypes and shared memory are known.

The mark is an attribute of the Python object of the tensor's storage, so views share it. Most marked memory is on
torch's meta device and takes no space. Real memory can be marked too: it stays allocated, but its values are no longer
valid.
"""

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
    """Return the same structure of lists, tuples and dicts, with `change` applied to the values in them."""
    if isinstance(value, (list, tuple)):
        return type(value)(changed(item, change) for item in value)
    if isinstance(value, dict):
        return {key: changed(item, change) for key, item in value.items()}
    return change(value)


def each_tensor(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return the same structure with `change` applied to each tensor."""
    return changed(value, lambda leaf: change(leaf) if isinstance(leaf, torch.Tensor) else leaf)


def by_schema(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield each argument of an operation's schema with the value that this call passes, or None."""
    for position, argument in enumerate(func._schema.arguments):
        yield argument, args[position] if position < len(args) else kwargs.get(argument.name)


def copy_of(
    name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[torch.Tensor, torch.Tensor | None, bool]:
    """Return a copy's source and target, and whether it is non-blocking. The target of `_to_copy` is None, because the
    operation makes it."""
    if name == "aten::_to_copy":
        return args[0], None, bool(kwargs.get("non_blocking", False))
    return args[1], args[0], bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))


def is_written(argument: Any) -> bool:
    """Return whether the operation writes to this argument of its schema."""
    return argument.alias_info is not None and bool(argument.alias_info.is_write)


def sparse_parts(tensor: torch.Tensor) -> dict[str, torch.Tensor] | None:
    """Return the inner tensors of a sparse tensor, by the suffix of their path; None for other layouts."""
    layout = tensor.layout
    if layout is torch.sparse_coo:
        return {"._indices()": tensor._indices(), "._values()": tensor._values()}
    if layout in (torch.sparse_csr, torch.sparse_bsr):
        indices = {".crow_indices()": tensor.crow_indices(), ".col_indices()": tensor.col_indices()}
    elif layout in (torch.sparse_csc, torch.sparse_bsc):
        indices = {".ccol_indices()": tensor.ccol_indices(), ".row_indices()": tensor.row_indices()}
    else:
        return None
    return {**indices, ".values()": tensor.values()}


@functools.cache
def reads_values(func: Any) -> bool:
    """Return whether an operation reads memory of the tensors that it is given. `zeros_like` and `new_zeros` take only
    the shape and the type."""
    name = str(func._schema.name).rpartition("::")[2]
    return not name.endswith("_like") and not name.startswith("new_")


@functools.cache
def takes_device(func: Any) -> bool:
    return any(argument.name == "device" for argument in func._schema.arguments)


@functools.cache
def is_wrapper_class(kind: Any) -> bool:
    """Return whether a tensor subclass implements operations itself. PyTorch's kernels then do not run on its
    memory."""
    # read through `type`, because a metaclass may run code of its own
    namespace_of = type.__dict__["__dict__"].__get__
    own = next(base for base in type.__dict__["__mro__"].__get__(kind) if "__torch_dispatch__" in namespace_of(base))
    if own is torch.Tensor:
        return False
    return namespace_of(own)["__torch_dispatch__"] is not torch._C._disabled_torch_dispatch_impl


_MARK = "_graphsafe_valueless"


def drop_values(tensor: torch.Tensor) -> None:
    """Mark the values in a tensor's memory as unknown. Call it with torch functions disabled."""
    if tensor.layout is torch.strided:
        setattr(tensor.untyped_storage(), _MARK, True)


def is_valueless(tensor: torch.Tensor) -> bool:
    """Return whether a tensor's values were not computed. Call it with torch functions disabled."""
    if tensor.layout is not torch.strided:
        return False
    try:
        return hasattr(tensor.untyped_storage(), _MARK)
    except (RuntimeError, NotImplementedError):  # a wrapper subclass has no memory of its own
        return False


def memory_key(tensor: torch.Tensor) -> int:
    """Return a number that identifies a tensor's memory: its address, or another number if it has no address."""
    storage = tensor.untyped_storage()
    return int(storage.data_ptr() or storage._cdata)
