"""Turns JSON values into data classes by the types of the fields. The JSON comes from a child process or an older
version."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

Data = TypeVar("Data")


def read(kind: type[Data], data: Any) -> Data:
    """Return `data` as the data class `kind`. Nothing is validated.

    Unknown keys are ignored. If a key is missing, or is null although its type excludes None, the field gets its
    default value. A field without a default gets None. If the structure was different in older versions, the data class
    has a method `upgraded(data)`.
    """
    found: Data = _read(kind, data)
    return found


def members(data: Any, kind: Any = None) -> dict[str, Any]:
    """Return the fields of a data class with their values, or only the fields that it has from its base `kind`. Unlike
    `asdict`, this function does not copy the values."""
    return {one.name: getattr(data, one.name) for one in fields(kind or data)}


@cache
def hints_of(kind: type) -> Mapping[str, Any]:
    """Return the types of a data class's fields."""
    return get_type_hints(kind)


def _read(kind: Any, value: Any) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        inner = [one for one in arguments if one is not type(None)]
        return value if value is None or len(inner) != 1 else _read(inner[0], value)
    if origin is tuple and isinstance(value, (list, tuple)):
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(_read(arguments[0], item) for item in value)
        return tuple(_read(one, item) for one, item in zip(arguments, value, strict=False))
    if isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, Mapping):
        return {key: _read(arguments[1], item) for key, item in value.items()}
    if isinstance(kind, type) and is_dataclass(kind) and not is_dataclass(value):
        members = getattr(kind, "upgraded", dict)(value or {})
        there = {
            name: _read(hint, members[name])
            for name, hint in hints_of(kind).items()
            if name in members and (members[name] is not None or _takes_none(hint))
        }
        return kind(**{**dict.fromkeys(_required(kind)), **there})
    return value


@cache
def _takes_none(hint: Any) -> bool:
    return hint is Any or hint is object or type(None) in get_args(hint)


@cache
def _required(kind: Any) -> tuple[str, ...]:
    without = [one for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING]
    return tuple(one.name for one in without)
