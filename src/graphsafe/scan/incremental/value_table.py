"""Values and names as numbers of one table, which is kept as text: so what readings were told outlasts a scan."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any

from graphsafe.scan.domain import values
from graphsafe.scan.domain.values import UNSET, Dict, Function, Number, Union, Value

NOTHING = -1
"In place of a value's number."
OPAQUE, CLOSURE = "Opaque", "closure"
SEALED = -2
"Numbers of closures from here on downwards are those of functions that are handed on, and cannot be called."
_NOWHERE = ast.Pass()
BARE = "bare"
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
_FIELDS = {name: tuple(field.name for field in fields(kind)) for name, kind in _PLAIN.items()}
_CONSTANTS = (str, int, float, bool, type(None))


class Unwritable(Exception):
    """A value that means nothing outside this process: a function that sees another's names.

    `refs`: the functions that it holds, where they are known.
    """

    def __init__(self, refs: Sequence[str] = ()) -> None:
        super().__init__(*refs)
        self.refs = refs


class ValueTable:
    """Equal values have one number. Rows only ever join, so that what was written before keeps its meaning."""

    def __init__(self, text: str = "") -> None:
        """`text` is that of a table, as `str` gives it."""
        self._rows = text.split("\n") if text else []
        "A value as JSON, a name as it is."
        self._numbers = {row: number for number, row in enumerate(self._rows)}
        "Of the rows that were there before; those that join are known."
        self._known: dict[object, int] = {}
        self._texts: dict[str, int] = {}
        "Of rows that are neither values nor names."
        self._values: dict[int, Value] = {}
        self._are_bare = False
        self._opaque: set[int] = set()
        "Numbers of values that cannot be written, which none but this process can look into."
        self.seals: Callable[[str], bool] | None = None
        "Whether a nested function, by its name, may be read as one that is handed on, and not to be called."

    def __str__(self) -> str:
        return "\n".join(self._rows)

    def number(self, value: Value | None) -> int:
        """Raises Unwritable."""
        if value is None:
            return NOTHING
        key = self._key(value)
        try:
            if key not in self._known:
                text = json.dumps(self._written(value), separators=(",", ":"))
                # No row of a bare value is that of another one.
                self._known[key] = self._row(f" {text}" if self._are_bare else text)
            number = self._known[key]
        except TypeError as error:  # a constant that has no hash
            raise Unwritable from error
        if number in self._opaque:
            raise Unwritable
        return number

    def any_number(self, value: Value | None) -> int:
        """The same, also of a value that cannot be written: its row says no more than that it is another one.

        Raises Unwritable for what has no hash.
        """
        if value is None:
            return NOTHING
        try:
            return self.number(value)
        except Unwritable:
            key = self._key(value)
            try:
                number = self._known.get(key)
            except TypeError as error:
                raise Unwritable from error
            if number is None:
                kind = CLOSURE if _is_closure(value) else ""
                number = self._row(json.dumps([OPAQUE, len(self._rows), kind, *_functions(value)]))
                self._known[key] = number
                self._values[number] = value
                self._opaque.add(number)
            return number

    def is_opaque(self, number: int) -> bool:
        """Whether the number is that of a value that this table could not write."""
        return number in self._opaque

    def row(self, text: str, values: Iterable[int]) -> int:
        """The number of names, numbers and flags together, as JSON; `values` are those of the values among them."""
        number = self._texts.get(text)
        if number is None:
            number = self._texts[text] = self._row(text)
            if not self._opaque.isdisjoint(values):
                self._opaque.add(number)
        return number

    def parts(self, number: int) -> list[Any]:
        """What `row` was given."""
        found: list[Any] = json.loads(self._rows[number])
        return found

    def bare_number(self, value: Value | None) -> int:
        """The number of a value of which only its kind will be asked, and no other constant than a flag."""
        with suppress(Unwritable):
            return self.number(value)
        self._are_bare = True
        try:
            return self.number(value)
        finally:
            self._are_bare = False

    def numbers(self, many: Iterable[Value]) -> list[int]:
        return [self.number(value) for value in many]

    def name(self, text: str) -> int:
        if text not in self._known:
            is_plain = text[:1] not in ("", "[", '"') and "\n" not in text
            self._known[text] = self._row(text if is_plain else json.dumps(text))
        return self._known[text]

    def flat_parts(self, number: int) -> list[int]:
        """The same, where they are nothing but numbers: at a quarter of the cost."""
        return [*map(int, self._rows[number][1:-1].split(","))]

    def value(self, number: int) -> Value | None:
        if number == NOTHING:
            return None
        if number not in self._values:
            row = self._rows[number]
            value = self._values[number] = self._read(json.loads(row), number)
            if row[:1] != " ":
                # Not a bare value: the number of this one will be asked for.
                self._known.setdefault(self._key(value), number)
        return self._values[number]

    def some(self, number: int) -> Value:
        """The value of a number that stands for one."""
        found = self.value(number)
        assert found is not None
        return found

    def text(self, number: int) -> str:
        row = self._rows[number]
        found: str = json.loads(row) if row[:1] == '"' else row
        return found

    def _key(self, value: Value) -> object:
        # 1 and True are equal, and not the same constant; a bare value may be written where the whole one may not.
        key = (type(value.const), value) if type(value) is Number else value
        return (BARE, key) if self._are_bare else key

    def _row(self, row: str) -> int:
        if row in self._numbers:
            return self._numbers[row]
        self._rows.append(row)
        return len(self._rows) - 1

    def _written(self, value: Value) -> list[Any]:
        kind = type(value).__name__
        if kind in _PLAIN:
            return [kind, *(getattr(value, name) for name in _FIELDS[kind])]
        if isinstance(value, Number):
            const = value.const
            known = const is not UNSET and not (self._are_bare and type(const) not in _CONSTANTS)
            return [kind, [_constant(const)] if known else [], value.soft, value.state, value.type]
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

    def _read(self, row: Sequence[Any], number: int) -> Value:
        kind, *parts = row
        if kind == OPAQUE:
            _, of, *refs = parts
            if of == CLOSURE and self.seals is not None and self.seals(refs[0]):
                return Function(refs[0], node=_NOWHERE, closure_id=SEALED - number)
            raise Unwritable(refs)
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


def _constant(const: object) -> object:
    if type(const) not in _CONSTANTS:
        raise Unwritable
    return const


def _is_closure(value: Value) -> bool:
    """Whether it is a nested function and nothing besides."""
    return isinstance(value, Function) and not (value.bound or value.partial or value.partial_keywords)


def _functions(value: Value | None) -> Iterator[str]:
    """The functions that a value is, or holds, that see another's names."""
    if isinstance(value, Function):
        if value.node is not None:
            yield value.ref
        held: Iterable[Value | None] = (value.bound, *value.partial, *(item for _, item in value.partial_keywords))
    elif isinstance(value, values.Sequence):
        held = (*(value.items or ()), value.elem)
    elif isinstance(value, Dict):
        held = (*(item for _, item in value.items), value.elem)
    elif isinstance(value, Union):
        held = value.options
    else:
        held = ()
    for one in held:
        yield from _functions(one)
