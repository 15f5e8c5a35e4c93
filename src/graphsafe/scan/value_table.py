"""Values and names as numbers of one table, whose rows are JSON: what readings were told can be kept between scans."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from graphsafe.scan import values
from graphsafe.scan.values import UNSET, Dict, Function, Number, Union, Value

NOTHING = -1
"In place of a value's number."
_PLAIN: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        values.Unknown,
        values.NoneValue,
        values.Tensor,
        values.Array,
        values.DeviceValue,
        values.DtypeValue,
        values.Handle,
        values.Lib,
        values.ProjectModule,
        values.ClassValue,
        values.Instance,
    )
}
"Values whose fields are all text, numbers or nothing."
_CONSTANTS = (str, int, float, bool, type(None))


class Unwritable(Exception):
    """A value that means nothing outside this process: a function that sees another's names."""


class ValueTable:
    """Equal values have one number. Rows only ever join, so that what was written before keeps its meaning."""

    def __init__(self, rows: Iterable[str] = ()) -> None:
        self.rows = list(rows)
        self._numbers = {row: number for number, row in enumerate(self.rows)}
        self._known: dict[object, int] = {}
        self._values: dict[int, Value] = {}
        self._are_bare = False

    def number(self, value: Value | None) -> int:
        """Raises Unwritable."""
        if value is None:
            return NOTHING
        # 1 and True are equal, and not the same constant.
        key = (type(value.const), value) if type(value) is Number else value
        try:
            if key not in self._known:
                self._known[key] = self._row(self._written(value))
            return self._known[key]
        except TypeError as error:  # a constant that has no hash
            raise Unwritable from error

    def bare_number(self, value: Value | None) -> int:
        """The number of a value of which only its kind will be asked: what a function sees is left out."""
        self._are_bare = True
        try:
            return self.number(value)
        finally:
            self._are_bare = False

    def numbers(self, many: Iterable[Value]) -> list[int]:
        return [self.number(value) for value in many]

    def name(self, text: str) -> int:
        if text not in self._known:
            self._known[text] = self._row(text)
        return self._known[text]

    def value(self, number: int) -> Value | None:
        if number == NOTHING:
            return None
        if number not in self._values:
            self._values[number] = self._read(json.loads(self.rows[number]))
        return self._values[number]

    def some(self, number: int) -> Value:
        """The value of a number that stands for one."""
        found = self.value(number)
        assert found is not None
        return found

    def text(self, number: int) -> str:
        row = self.rows[number]
        found: str = json.loads(row) if "\\" in row else row[1:-1]
        return found

    def _row(self, written: object) -> int:
        row = json.dumps(written, separators=(",", ":"))
        if row not in self._numbers:
            self._numbers[row] = len(self.rows)
            self.rows.append(row)
        return self._numbers[row]

    def _written(self, value: Value) -> list[Any]:
        kind = type(value).__name__
        if kind in _PLAIN:
            return [kind, *(getattr(value, name) for name in _fields(_PLAIN[kind]))]
        if isinstance(value, Number):
            known = value.const is not UNSET
            return [kind, [_constant(value.const)] if known else [], value.soft, value.state, value.type]
        if isinstance(value, values.Sequence):
            items = None if value.items is None else self.numbers(value.items)
            return [kind, value.kind, items, self.number(value.elem)]
        if isinstance(value, Dict):
            return [kind, [[_constant(key), self.number(item)] for key, item in value.items], self.number(value.elem)]
        if isinstance(value, Union):
            return [kind, self.numbers(value.options)]
        if isinstance(value, Function) and (self._are_bare or value.node is None):
            keywords = [[name, self.number(item)] for name, item in value.partial_keywords]
            return [
                kind,
                value.ref,
                self.number(value.bound),
                self.numbers(value.partial),
                keywords,
                value.closure_id,
            ]
        raise Unwritable

    def _read(self, row: Sequence[Any]) -> Value:
        kind, *parts = row
        if kind in _PLAIN:
            plain: Value = _PLAIN[kind](*parts)
            return plain
        if kind == "Number":
            const, soft, state, of = parts
            return Number(const[0] if const else UNSET, soft, state, of)
        if kind == "Sequence":
            named, items, elem = parts
            return values.Sequence(named, None if items is None else tuple(map(self.some, items)), self.some(elem))
        if kind == "Dict":
            items, elem = parts
            return Dict(tuple((key, self.some(item)) for key, item in items), self.some(elem))
        if kind == "Union":
            return Union(tuple(map(self.some, parts[0])))
        ref, bound, partial, keywords, closure = parts
        named_parts = tuple((name, self.some(item)) for name, item in keywords)
        return Function(ref, self.value(bound), tuple(map(self.some, partial)), named_parts, closure_id=closure)


def _fields(kind: type) -> tuple[str, ...]:
    names: tuple[str, ...] = kind.__match_args__  # type: ignore[attr-defined]
    return names


def _constant(const: object) -> object:
    if type(const) not in _CONSTANTS:
        raise Unwritable
    return const
