"""Named tuples: their classes, and the tuples that calls of these classes make."""

from __future__ import annotations

import ast

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.joins import join_all
from graphsafe.scan.domain.numbers import const_of
from graphsafe.scan.domain.values import UNKNOWN, Dict, RuntimeObject, Sequence, Value
from graphsafe.scan.execution.frame import Frame

KIND = "named-tuple"


def defined(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    """Return the class of `namedtuple("State", "x y")`, with the names of its fields."""
    given = arguments.get(1, "field_names")
    parts = given.items if type(given) is Sequence else (given,)
    names = [const for part in parts or () if isinstance(const := const_of(part), str)]
    if len(names) != len(parts or ()) or not names:
        return UNKNOWN
    return RuntimeObject(KIND, " ".join(names).replace(",", " "))


def made(cls: RuntimeObject, arguments: Arguments) -> Value:
    """Return the tuple of `State(x, y)`, or UNKNOWN if the call does not show the value of each field."""
    names = tuple((cls.detail or "").split())
    items = {**dict(zip(names, arguments.positional, strict=False)), **arguments.keywords}
    if arguments.further or items.keys() != set(names) or len(arguments.positional) > len(names):
        return UNKNOWN
    values = tuple(items[name] for name in names)
    return Sequence("tuple", values, join_all(values), names=names)


def field(value: Sequence, name: str) -> Value | None:
    """Return the value of `state.x`, or None if there is no such field."""
    if value.items is None or len(value.items) != len(value.names) or name not in value.names:
        return None
    return value.items[value.names.index(name)]


def method(value: Sequence, name: str, arguments: Arguments) -> Value | None:
    """Return the value of `state._replace(x=…)` or `state._asdict()`, or None for any other method."""
    if value.items is None or len(value.items) != len(value.names):
        return None
    items = dict(zip(value.names, value.items, strict=True))
    if name == "_asdict":
        return Dict(tuple(items.items()), value.elem)
    if name != "_replace" or arguments.further or not arguments.keywords.keys() <= items.keys():
        return None
    values = tuple({**items, **arguments.keywords}.values())
    return replace(value, items=values, elem=join_all(values), held_by=None)
