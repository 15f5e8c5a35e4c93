"""Arguments of operations, as the op table describes them, and their effect on the result."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any

from graphsafe.optable import UNKNOWN as NO_LITERAL
from graphsafe.optable import Argument, ArgumentKind
from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.numbers import const_of, type_of
from graphsafe.scan.domain.values import (
    UNSET,
    Array,
    DeviceValue,
    Dict,
    Dtype,
    DtypeValue,
    Lib,
    NoneValue,
    Number,
    RuntimeObject,
    Sequence,
    Tensor,
    Value,
    as_tensor,
    options,
)

_NUMBER_FIRST = re.compile(r"(add|sub|addcmul|addcdiv)_?")
"""Matches methods of tensors that also accept the factor before the other operand (`x.add_(2, other)`), as in torch
before 1.5."""


_SHAPE = re.compile(r"(^|[._])(shape|sizes?)$")
"Matches names of whole shapes. torch accepts no tensor with several elements as a shape."


def is_certain_size(tensor: Tensor) -> bool:
    """Return whether a size is certainly a tensor. `x.view(output_shape)` would raise an error for a tensor, so the
    annotation of `output_shape` is wrong."""
    return tensor.certain and (tensor.ndim == 0 or _SHAPE.search(tensor.name or "") is None)


def is_true(value: Value | None) -> bool:
    return const_of(value) is True


def may_be_true(value: Value | None) -> bool:
    """Return whether an argument is given and not known to be false."""
    return value is not None and (const_of(value) is UNSET or bool(const_of(value)))


def device_named(value: Value | None) -> DeviceValue | None:
    """Return the device that an argument names (a torch.device, a string, a number, or a tensor on it), or None."""
    for option in options(value) if value is not None else ():
        if type(option) is DeviceValue:
            return option
        if type(option) is Tensor:
            return DeviceValue(option.where)
        if type(option) is Number:
            named = _device_of_number(option)
            if named is not None or isinstance(option.const, str):
                return named
    return None


def dtype_named(value: Value, otherwise: Dtype | None) -> Dtype | None:
    """Return the dtype that an argument names (a torch.dtype or one of Python's types), or None if it is not known."""
    if type(value) is NoneValue:
        return otherwise
    if type(value) is Lib:
        return _PYTHON_TYPES.get(value.name)
    return value.dtype if type(value) is DtypeValue else None


_PYTHON_TYPES: Mapping[str, Dtype] = {"builtins.bool": "bool", "builtins.int": "int", "builtins.float": "float"}


def _device_of_number(value: Number) -> DeviceValue | None:
    """Return the device that a string or a number such as `"cuda:0"` or `0` names, or that the platform chooses. Return
    None for any other string."""
    if value.overridable_by == "platform":
        return DeviceValue("any")
    if isinstance(value.const, str):
        base = value.const.partition(":")[0]
        if base == "cpu" and value.overridable_by == "default":
            # Unknown callers may pass another device.
            return DeviceValue("any", maybe_host=True)
        if base in ("cpu", "meta", "mps"):
            return DeviceValue("host")
        return DeviceValue("device", value.const) if base in ("cuda", "xpu", "hpu", "npu", "xla") else None
    # The value of a device number such as `torch.cuda.current_device()` is not visible in the source.
    return DeviceValue("any") if value.type == "str" else DeviceValue("device")


def fits_tensors(call: ast.Call) -> bool:
    """Return whether a tensor's method accepts the arguments: `item` accepts none, and `sort` accepts no key."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if name in ("item", "tolist"):
        return not (call.args or call.keywords)
    return name != "sort" or not any(keyword.arg in ("key", "reverse") for keyword in call.keywords)


def tensors_in(value: Value) -> list[Tensor]:
    """Return the tensors in an argument, also those in a list."""
    if type(value) is Tensor:
        return [value]
    if type(value) is Sequence:
        return [tensor for item in (value.items or (value.elem,)) for tensor in tensors_in(item)]
    tensor, _ = as_tensor(value)
    return [tensor] if tensor is not None else []


def argument(value: Value, text: str = "") -> Argument:
    """Return an argument's description (kind, value and source text), in the form that the op table's conditions
    take."""
    described = _DESCRIBED.get(type(value))
    if described is not None:
        kind, literal = described(value)
        return Argument(kind, literal, text)
    tensor, certain = as_tensor(value)
    return argument(tensor, text) if tensor is not None and certain else Argument(None, text=text)


Described = tuple[ArgumentKind, Any]
"The kind of an argument, and its value if known."


def _tensor(value: Tensor) -> Described:
    return "host-tensor" if value.where == "host" else "mask" if value.dtype == "bool" else "tensor", NO_LITERAL


def _number(value: Number) -> Described:
    kind: ArgumentKind = "string" if value.type == "str" else "bool" if value.type == "bool" else "number"
    return kind, NO_LITERAL if value.const is UNSET else value.const


def _sequence(value: Sequence) -> Described:
    if value.items == ():
        return "empty", NO_LITERAL
    kinds = {argument(item).kind for item in (value.items or (value.elem,))}
    if kinds == {"host-tensor"}:
        return "host-tensor", NO_LITERAL
    return "mask" if "mask" in kinds else "tensors" if "tensor" in kinds else "sequence", NO_LITERAL


def _other(value: Value) -> Described:
    return "other", NO_LITERAL


_DESCRIBED: Mapping[type, Callable[[Any], Described]] = {
    Tensor: _tensor,
    Number: _number,
    NoneValue: lambda value: ("none", None),
    Sequence: _sequence,
    DtypeValue: lambda value: ("dtype", NO_LITERAL if value.dtype is None else value.dtype),
    DeviceValue: lambda value: ("host-device" if value.where == "host" else "device", NO_LITERAL),
    Array: _other,
    Dict: _other,
    RuntimeObject: _other,
}


def in_new_order(method: str, arguments: Arguments) -> Arguments:
    """Return the arguments in the order that torch expects now: `x.add_(other, alpha=2)` for `x.add_(2, other)`."""
    if not _NUMBER_FIRST.fullmatch(method) or len(arguments.positional) < 2:
        return arguments
    first, *rest = arguments.positional
    if as_tensor(first)[0] is not None or any(as_tensor(value)[0] is None for value in rest):
        return arguments
    return replace(arguments, positional=(*rest, first))


def are_answers(values: list[Value]) -> bool:
    """Return whether the first value is a list of bools, such as results of comparisons. torch converts such a list to
    a mask."""
    return bool(values) and type(values[0]) is Sequence and type_of(values[0].elem) == "bool"
