"""Summaries as rows of tables, and back."""

from __future__ import annotations

import json
from typing import Any, get_args

from graphsafe.scan.domain.state_log import Read, Use
from graphsafe.scan.domain.summary import CallEdge, Included, Item, Summary, has_uses
from graphsafe.scan.domain.values import UNKNOWN
from graphsafe.scan.incremental.encoding import FirstLine, Unkept, absolute, decoded, encoded, relative
from graphsafe.scan.incremental.rows import NO_ROWS, Rows, call, call_number

_ITEMS = get_args(Item)


class SummaryWriter:
    """Adds summaries to rows, while none of them changes."""

    def __init__(self, rows: Rows, first_line: FirstLine) -> None:
        self._rows = rows
        self._first_line = first_line
        self._summaries: dict[int, int] = {}
        self._equal: dict[str, int] = {}
        "How many summaries are equal to one that came before."
        self._items: dict[int, int] = {}
        "Items by id: the summaries are alive, and so are their items."
        self._equal_items: dict[Item, int] = {}

    def number(self, summary: Summary, is_root: bool = True) -> int:
        """Only of a root is the value kept. Raises Unkept."""
        known = self._summaries.get(id(summary))
        if known is None:
            known = self._summaries[id(summary)] = self._added(summary, is_root)
        if known < 0:
            raise Unkept("known not to be kept")
        return known

    def _added(self, summary: Summary, is_root: bool) -> int:
        try:
            value = self._row(summary.value) if is_root else -1
            items = [self._item(item) for item in summary.items]
            events = [self._item(event) for event in summary.events]
            constructed = [self._row(given) for given in summary.constructed.items()]
        except Unkept:
            return -1
        row = f"[{items},{events},{constructed},{value}".replace(" ", "")
        self._equal[row] = which = self._equal.get(row, -1) + 1
        return self._rows.summaries.number(f"{row},{which}]")

    def _item(self, item: Any) -> int:
        if type(item) is Included:
            return call_number(self.number(item.summary, is_root=False), item.guarded << 1 | item.without_uses)
        number = self._items.get(id(item))
        if number is None:
            # Most are of these kinds, and are equal to others.
            is_frequent = type(item) in (CallEdge, Read, Use)
            number = self._equal_items.get(item) if is_frequent else None
            if number is None:
                number = self._row(relative(item, self._first_line))
            if is_frequent:
                self._equal_items[item] = number
            self._items[id(item)] = number
        return number

    def _row(self, value: object) -> int:
        return self._rows.items.number(encoded(value, self._rows.strings))


class SummaryReader:
    """Makes summaries of rows. What a function that is no root returns is not known."""

    def __init__(self, rows: Rows, first_line: FirstLine) -> None:
        self._rows = rows
        self._first_line = first_line
        self._summaries: dict[int, Summary] = {}
        self._items: dict[int, Any] = {}

    def summary(self, number: int) -> Summary:
        """Raises Unkept."""
        if number not in self._summaries:
            try:
                self._summaries[number] = self._made(number)
            except NO_ROWS as error:
                raise Unkept(str(error)) from None
        return self._summaries[number]

    def _made(self, number: int) -> Summary:
        items, events, constructed, value, _ = json.loads(self._rows.summaries.rows[number])
        made = tuple([self._item(item) if item >= 0 else self._included(item, number) for item in items])
        given = dict(self._value(item) for item in constructed)
        placed = tuple([self._item(event) for event in events])
        if not all(isinstance(item, _ITEMS) for item in made) or any(type(event) is not tuple for event in placed):
            raise Unkept("no item")
        returned = self._value(value) if value >= 0 else UNKNOWN
        return Summary(returned, made, placed, {}, {}, given, any(map(has_uses, made)))

    def _included(self, item: int, caller: int) -> Included:
        called, how = call(item)
        if called >= caller:
            raise Unkept("called before it is written")
        return Included(self.summary(called), bool(how & 2), bool(how & 1))

    def _item(self, number: int) -> Any:
        if number not in self._items:
            self._items[number] = absolute(self._value(number), self._first_line)
        return self._items[number]

    def _value(self, number: int) -> Any:
        if number < 0:
            raise Unkept("no such item")
        return decoded(self._rows.items.rows[number], self._rows.strings)
