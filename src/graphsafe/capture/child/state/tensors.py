"""Presents tensors of every kind as plain tensors over the same memory, which a device can read, write and hash."""

from __future__ import annotations

import functools

import torch
from torch.utils._python_dispatch import _disable_current_modes

from graphsafe.capture.child.state.objects import bases_of, cached_per_class, namespace_of
from graphsafe.capture.child.state.values import ADDRESS
from graphsafe.capture.device.modes import outside_modes
from graphsafe.capture.device.structures import is_valueless, is_wrapper_class, sparse_parts

Parts = dict[str, torch.Tensor]

_COMPARABLE = frozenset(
    {"bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32"}
    | {"float64", "complex32", "complex64", "complex128"}
)


class Unreadable(Exception):
    """Raised if a tensor cannot be compared. The message is the reason."""


def parts_of(tensor: torch.Tensor) -> Parts:
    """Return plain tensors, by the suffix of their path: the tensor itself under "", or the parts of a sparse, nested
    or wrapper tensor. Raises Unreadable. Call it with torch functions disabled."""
    kind = type(tensor)
    if _is_given_back(tensor):
        raise Unreadable("its storage has been freed")
    if (kind is torch.Tensor or kind is torch.nn.Parameter) and _is_plain(tensor):
        return {"": tensor}
    with _disable_current_modes():
        return _wrapped(tensor) if is_wrapper_class(kind) else _laid_out(torch.Tensor.detach(tensor))


def _is_given_back(tensor: torch.Tensor) -> bool:
    """Return whether the tensor's storage was resized to zero, as FSDP does with weights between uses."""
    if tensor.layout is not torch.strided or tensor.is_meta or tensor.is_nested or not tensor.numel():
        return False
    try:
        return tensor.untyped_storage().nbytes() == 0
    except (RuntimeError, NotImplementedError):
        return False


def _is_plain(tensor: torch.Tensor) -> bool:
    return (
        tensor.layout is torch.strided
        and not tensor.is_nested
        and tensor.is_contiguous()
        and not tensor.is_quantized
        and (not tensor.is_meta or is_valueless(tensor))
        and _is_comparable(tensor.dtype)
    )


@functools.cache
def _is_comparable(dtype: torch.dtype) -> bool:
    """Return whether PyTorch can compare the dtype. PyTorch cannot compare raw bits or numbers smaller than a byte."""
    name = str(dtype).removeprefix("torch.")
    return name in _COMPARABLE or name.startswith("float8")


def _laid_out(tensor: torch.Tensor) -> Parts:
    if tensor.is_meta and not is_valueless(tensor):
        return {}
    if tensor.is_nested:
        return {".values()": tensor.values(), "._nested_tensor_size()": tensor._nested_tensor_size()}
    parts = {"": tensor} if tensor.layout is torch.strided else sparse_parts(tensor)
    if parts is None:
        raise Unreadable(f"a tensor of layout {str(tensor.layout).removeprefix('torch.')}")
    return {suffix: _plain(part) for suffix, part in parts.items()}


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_quantized or not _is_comparable(tensor.dtype):
        return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
    return tensor if tensor.is_contiguous() else _each_element_once(tensor)


def _each_element_once(tensor: torch.Tensor) -> torch.Tensor:
    """Return an expanded tensor without its repetitions. For overlapping windows, return the memory that they share."""
    strides = tensor.stride()
    if not tensor.numel():
        return tensor
    if 0 in strides:
        sizes = [1 if stride == 0 else size for size, stride in zip(tensor.shape, strides, strict=True)]
        return _each_element_once(tensor.as_strided(sizes, [stride or 1 for stride in strides]))
    span = 1
    overlap = False
    for stride, size in sorted((stride, size) for stride, size in zip(strides, tensor.shape, strict=True) if size > 1):
        overlap = overlap or stride < span
        span += stride * (size - 1)
    return tensor.as_strided((span,), (1,)) if overlap else tensor


@cached_per_class
def is_in_parts(kind: type) -> bool:
    """Return whether a tensor's class reports the inner tensors of its objects."""
    return any("__tensor_flatten__" in namespace_of(base) for base in bases_of(kind))


def _wrapped(tensor: torch.Tensor) -> Parts:
    kind = type(tensor)
    if not is_in_parts(kind):
        raise Unreadable(f"a {kind.__name__}, which does not say what it is made of (it has no __tensor_flatten__)")
    found: Parts = {}
    try:
        names, _ = tensor.__tensor_flatten__()  # type: ignore[attr-defined]
        inner = {name: getattr(tensor, name) for name in names}
    except Exception as error:
        raise Unreadable(f"a {kind.__name__}, whose __tensor_flatten__ raised {type(error).__name__}") from error
    for name, part in inner.items():
        if type(part).__name__ == "DeviceMesh":  # the mesh of a DTensor is left out, because steps do not change it
            continue
        if not issubclass(type(part), torch.Tensor):
            raise Unreadable(f"a {kind.__name__}, whose {name} is not a tensor")
        found |= {f".{name}{suffix}": plain for suffix, plain in parts_of(part).items()}
    return found


def has_address(tensor: torch.Tensor) -> bool:
    """Return whether a tensor holds addresses, which differ in each process."""
    with outside_modes():
        return tensor.dtype == torch.int64 and bool((tensor > ADDRESS).any())
