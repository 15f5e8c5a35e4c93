"""Compares the values that constructors, calls and annotations give to one attribute, and selects the useful ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphsafe.scan.domain.joins import join
from graphsafe.scan.domain.values import (
    Dict,
    Instance,
    Number,
    RuntimeObject,
    Tensor,
    Unknown,
    Value,
    as_tensor,
    options,
)
from graphsafe.scan.domain.values import Sequence as SequenceValue
from graphsafe.scan.domain.widening import in_any_call


def of_parameter(name: str) -> str:
    """Return the key under which the values of a constructor's parameter are stored, in the same table as values of
    attributes."""
    return f"({name})"


def is_blank(value: Value | None) -> bool:
    """Return whether a value is an empty container, or a list of tensors on the host: `[torch.zeros(1)] * n`. If a
    constructor assigns one, other methods fill it or replace its items."""
    if type(value) is SequenceValue:
        return value.items == () or (type(value.elem) is Tensor and value.elem.where == "host")
    return type(value) is Dict and not value.items and type(value.elem) is Unknown


def facts_of(value: Value, with_objects: bool) -> Iterator[Value]:
    """Yield the facts that an argument shows about its parameter: a tensor without the tensor's identity, or an
    optimizer. If `with_objects` is set, also yield a number, and an object of the project without its identity."""
    tensor, certain = as_tensor(value)
    if tensor is not None and certain and tensor.certain:
        yield Tensor(tensor.where, tensor.dtype, tensor.ndim, tensor.pinned)
    yield from filter(is_optimizer, options(value))
    yield from (in_any_call(one) for one in options(value) if with_objects and type(one) in (Instance, Number))


def is_optimizer(value: Value) -> bool:
    return type(value) is RuntimeObject and value.kind == "optimizer"


def agree(values: Sequence[Value]) -> bool:
    """Return whether there are values, and either all of them are host tensors or none of them is."""
    return len({type(value) is Tensor and value.where == "host" for value in values}) == 1


def without_unplaced(values: Sequence[Value]) -> Sequence[Value]:
    """Drop the tensors of unknown placement if one of the values is a device tensor."""
    on_device = any(type(value) is Tensor and value.where == "device" for value in values)
    return [value for value in values if not (on_device and type(value) is Tensor and value.where == "any")]


def filled(value: Value, expected: Value) -> Value:
    """Return the join of a value and the value that the annotation promises. If the device of the value's tensor is
    known, return only the value, because an annotation does not show the device."""
    made = as_tensor(value)[0]
    return value if made is not None and made.where != "any" else join(value, expected)
