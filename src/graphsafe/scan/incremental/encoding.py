"""What lines of hot code do, as JSON and back: dataclasses of the domain, whichever there are, made of plain values.

Lines count from the first line of the function around them, so that they hold when that function has moved. To read
this back makes instances of these dataclasses and of Python's plain types, and runs no other code.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import EllipsisType
from typing import Any

from graphsafe.scan.domain import arguments, events, record, state_log, summary, values
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.incremental.tables import Refused, Table

FirstLine = Callable[[str], int]
"The first line of the function `path::name`. Raises ValueError for what has none."

NAMES_A_LINE = re.compile(r"\.py:\d|\blines? \d")
"Text that an edit may make wrong."
_KINDS: Mapping[str, type[Any]] = {
    name: kind
    for module in (values, arguments, events, state_log, summary, record)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind)
}
_FIELDS = {
    kind: tuple(field.name for field in dataclasses.fields(kind) if field.init and field.compare)
    for kind in _KINDS.values()
}
"What makes two instances the same; the code of a closure and its environment is not among it, as in other processes."


class Unkept(ValueError):
    """Something has no form that holds after an edit, or text has no meaning here."""


def strings_table(texts: Iterable[str] = ()) -> Table:
    """Each text once; what is encoded refers to it by number."""
    return Table(texts, refused=NAMES_A_LINE)


def encoded(value: object, strings: Table) -> str:
    """Raises Unkept."""
    kind = type(value)
    if kind is str:
        try:
            return f'"{strings.number(value)}"'  # type: ignore[arg-type]
        except Refused as error:
            raise Unkept(f"names a line: {error}") from None
    if kind is int or kind is float or kind is bool or value is None:
        try:
            return json.dumps(value)
        except ValueError as error:
            # Numbers of thousands of digits have no text.
            raise Unkept(str(error)) from None
    fields = _FIELDS.get(kind)
    if fields is not None:
        return ",".join([f'["{kind.__name__}"', *[encoded(getattr(value, name), strings) for name in fields]]) + "]"
    if value is values.UNSET:
        return '["unset"]'
    for base, (name, parts, _) in _PLAIN.items():
        if isinstance(value, base):
            return ",".join([f'["{name}"', *[encoded(part, strings) for part in parts(value)]]) + "]"
    raise Unkept(kind.__name__)


def decoded(text: str, strings: Table) -> Any:
    """Raises Unkept."""
    try:
        return _value(json.loads(text), strings.rows)
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise Unkept(str(error)) from None


def relative(item: Any, first_line: FirstLine) -> Any:
    """An item of a summary, or an event with its place, with lines from the first of its function on. Raises Unkept."""
    return _moved(item, lambda ref: -first_line(ref))


def absolute(item: Any, first_line: FirstLine) -> Any:
    return _moved(item, first_line)


def _moved(item: Any, by: FirstLine) -> Any:
    if isinstance(item, tuple):
        place, event = item
        moved = _moved(place, by)
        return moved, replace(event, span=moved.span)
    if isinstance(item, summary.CallEdge):
        return replace(item, edge=_moved(item.edge, by))
    kind = type(item)
    ref = item.caller if kind is record.Edge else f"{item.path}::{item.function}" if hasattr(item, "function") else ""
    if hasattr(item, "span"):
        first, column, last, end = item.span
        lines = by(ref)
        return replace(item, span=(first + lines, column, last + lines, end))
    return replace(item, line=item.line + by(ref)) if hasattr(item, "line") else item


def _value(plain: Any, texts: Sequence[str]) -> Any:
    if type(plain) is str:
        return texts[int(plain)]
    if type(plain) is not list:
        return plain
    name, *parts = plain
    parts = [_value(part, texts) for part in parts]
    kind = _KINDS.get(name)
    if kind is not None:
        return kind(**dict(zip(_FIELDS[kind], parts, strict=True)))
    return values.UNSET if name == "unset" else _MADE[name](parts)


_PLAIN: Mapping[type, tuple[str, Callable[[Any], Iterable[object]], Callable[[list[Any]], object]]] = {
    tuple: ("tuple", iter, tuple),
    list: ("list", iter, list),
    frozenset: ("frozenset", lambda held: sorted(held, key=repr), frozenset),
    set: ("set", lambda held: sorted(held, key=repr), set),
    Mapping: ("dict", lambda held: held.items(), dict),
    bytes: ("bytes", lambda held: [held.hex()], lambda parts: bytes.fromhex(parts[0])),
    complex: ("complex", lambda held: [held.real, held.imag], lambda parts: complex(*parts)),
    EllipsisType: ("...", lambda held: [], lambda parts: ...),
}
"Type -> its name, its parts, and what makes it of them."
_MADE = {name: make for name, _, make in _PLAIN.values()}
