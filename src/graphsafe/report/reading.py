"""Turns JSON values into data classes by the types of the fields, and data classes into JSON values.

The JSON that is read comes from a child process or an older version.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

Data = TypeVar("Data")
_AS_THEY_ARE = frozenset((str, int, bool, type(None)))
"These types are checked first, because nearly all values of a report have them."


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
    owner: type = kind or type(data)
    return {name: getattr(data, name) for name in _names(owner)}


def plain(value: Any, of_field: Callable[[str, Any], Any] | None = None) -> Any:
    """Return a value as JSON values. JSON has no NaN and no infinity, so these become None, which is null in a report.

    `of_field` returns the values of a data class's fields, given their names, if they are not to be plain too.
    """
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if is_dataclass(kind):
        of_field = of_field or (lambda name, item: plain(item))
        found = members(value).items()
        return {name: item if type(item) in _AS_THEY_ARE else of_field(name, item) for name, item in found}
    if isinstance(value, Mapping):
        return {str(key): plain(item, of_field) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, of_field) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))


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
