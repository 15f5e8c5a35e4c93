"""Named tuples: their classes, and the tuples that calls of these make."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.joins import join_all
from graphsafe.scan.domain.values import UNKNOWN, Dict, Number, RuntimeObject, Sequence, Value

if TYPE_CHECKING:
    from graphsafe.scan.domain.arguments import Arguments
    from graphsafe.scan.interpreter.call_frame import Frame
    from graphsafe.scan.interpreter.engine import Engine

KIND = "named-tuple"


def defined(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    """`namedtuple("State", "x y")`: the class, with the names of its fields."""
    given = arguments.get(1, "field_names")
    parts = given.items if type(given) is Sequence else (given,)
    names = [part.const for part in parts or () if type(part) is Number and isinstance(part.const, str)]
    if len(names) != len(parts or ()) or not names:
        return UNKNOWN
    return RuntimeObject(KIND, " ".join(names).replace(",", " "))


def made(cls: RuntimeObject, arguments: Arguments) -> Value:
    """`State(x, y)`; unknown where it cannot be told which field is which, or a default stands for one."""
    names = tuple((cls.detail or "").split())
    items = {**dict(zip(names, arguments.positional, strict=False)), **arguments.keywords}
    if arguments.open or items.keys() != set(names) or len(arguments.positional) > len(names):
        return UNKNOWN
    values = tuple(items[name] for name in names)
    return Sequence("tuple", values, join_all(values), names=names)


def field(value: Sequence, name: str) -> Value | None:
    """`state.x`; None for what is no field."""
    if value.items is None or len(value.items) != len(value.names) or name not in value.names:
        return None
    return value.items[value.names.index(name)]


def method(value: Sequence, name: str, arguments: Arguments) -> Value | None:
    """`state._replace(x=…)` and `state._asdict()`; None for other methods."""
    if value.items is None or len(value.items) != len(value.names):
        return None
    items = dict(zip(value.names, value.items, strict=True))
    if name == "_asdict":
        return Dict(tuple(items.items()), value.elem)
    if name != "_replace" or arguments.open or not arguments.keywords.keys() <= items.keys():
        return None
    values = tuple({**items, **arguments.keywords}.values())
    return replace(value, items=values, elem=join_all(values), held_by=None)
