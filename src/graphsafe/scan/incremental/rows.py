"""What reading each root gave in earlier scans, and what that rests on, as tables of plain values.

A summary refers to the summaries of what it calls, an answer to the questions that it asked, each by its number. Equal
rows have one number. All of it is JSON in the cache.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from graphsafe.scan.incremental.encoding import Strings, decoded, encoded


class Table:
    """Rows by number; equal ones have one number."""

    def __init__(self, rows: Iterable[Any] = ()) -> None:
        self.rows = [*rows]
        self._numbers: dict[Any, int] | None = None

    def number(self, row: Any) -> int:
        if self._numbers is None:
            self._numbers = {row: number for number, row in enumerate(self.rows)}
        number = self._numbers.get(row)
        if number is None:
            number = self._numbers[row] = len(self.rows)
            self.rows.append(row)
        return number


@dataclass(slots=True)
class RootReading:
    """Of one root, in both rounds of the scan."""

    facts: int
    "The set of facts that it used itself."
    questions: tuple[int, ...]
    first: int
    "The summary of the first round; -1 where it was not read in that."
    told: str
    "What the second round knew of its parameters."
    second: int
    "The same of the second round."


NO_ROWS = (ValueError, TypeError, LookupError, AttributeError, RecursionError, StopIteration)
"What text raises that is no such table, or stands for nothing that it should."
Question = tuple[int, ...]
"The set of facts that an answer rests on, then the questions."
SummaryRow = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int, int]
"""Items, where a number below 0 stands for a call; events; what is put into fields; the value of a root, or -1.

The last number tells summaries apart that are equal: in the order of a step each counts by itself.
"""


@dataclass(slots=True)
class Rows:
    """Numbers refer to rows of the other tables."""

    strings: Strings = field(default_factory=Strings)
    facts: Table = field(default_factory=Table)
    "Fact and digest, as text."
    fact_sets: Table = field(default_factory=Table)
    questions: list[Question] = field(default_factory=list)
    items: Table = field(default_factory=Table)
    "Items of summaries and events, as text."
    summaries: Table = field(default_factory=Table)
    "What is called is written before what calls it."
    roots: dict[str, RootReading] = field(default_factory=dict)
    replaced: int = 0
    "Readings that others have taken the place of: their rows are still there."


def add(rows: Rows, others: Rows, roots: Mapping[str, RootReading]) -> None:
    """Add to `rows` these roots of `others`, with all that they refer to, under new numbers."""
    copy = _Copy(rows, others)
    for root, reading in roots.items():
        rows.roots[root] = RootReading(
            copy.fact_set(reading.facts),
            copy.questions(reading.questions),
            copy.summary(reading.first),
            reading.told,
            copy.summary(reading.second),
        )
    copy.close()


class _Copy:
    """From old numbers to new ones, row by row."""

    def __init__(self, rows: Rows, others: Rows) -> None:
        self._rows = rows
        self._others = others
        self._fact_sets: dict[int, int] = {}
        self._questions: dict[int, int] = {}
        self._summaries: dict[int, int] = {}
        self._texts: dict[str, str] = {}

    def fact_set(self, number: int) -> int:
        if number not in self._fact_sets:
            old = self._others.facts.rows
            new = (self._rows.facts.number(self._text(old[fact])) for fact in self._others.fact_sets.rows[number])
            self._fact_sets[number] = self._rows.fact_sets.number(tuple(sorted(new)))
        return self._fact_sets[number]

    def _text(self, text: str) -> str:
        """The same with the numbers of today's strings."""
        if text not in self._texts:
            self._texts[text] = encoded(decoded(text, self._others.strings), self._rows.strings)
        return self._texts[text]

    def questions(self, asked: Sequence[int]) -> tuple[int, ...]:
        waiting = [*asked]
        while waiting:
            number = waiting.pop()
            if number not in self._questions:
                self._questions[number] = len(self._rows.questions) + len(self._questions)
                waiting += self._others.questions[number][1:]
        return tuple([self._questions[number] for number in asked])

    def summary(self, number: int) -> int:
        if number < 0:
            return number
        if number not in self._summaries:
            items, events, constructed, value, which = self._others.summaries.rows[number]
            row = (
                tuple(map(self._item, items)),
                tuple(map(self._item, events)),
                tuple(map(self._item, constructed)),
                self._item(value) if value >= 0 else value,
                which,
            )
            self._summaries[number] = self._rows.summaries.number(row)
        return self._summaries[number]

    def _item(self, number: int) -> int:
        if number >= 0:
            return self._rows.items.number(self._text(self._others.items.rows[number]))
        called, how = call(number)
        return call_number(self.summary(called), how)

    def close(self) -> None:
        """Write the questions that were met."""
        for number in self._questions:
            facts, *asked = self._others.questions[number]
            self._rows.questions.append((self.fact_set(facts), *self.questions(asked)))


def call_number(summary: int, how: int) -> int:
    """The number of an item that is a call; `how`: from 0 to 3."""
    return -1 - (summary << 2 | how)


def call(number: int) -> tuple[int, int]:
    """The summary and how it is called."""
    return (-1 - number) >> 2, (-1 - number) & 3


def parts_of(rows: Rows) -> Iterator[str]:
    """As text, one table after the other."""
    roots = {root: (r.facts, r.questions, r.first, r.told, r.second) for root, r in rows.roots.items()}
    tables = rows.facts.rows, rows.fact_sets.rows, rows.questions, rows.items.rows, rows.summaries.rows
    for table in (rows.strings.texts, *tables, roots, rows.replaced):
        yield json.dumps(table, separators=(",", ":"))


def rows_of(parts: Iterable[str]) -> Rows:
    """Raises one of NO_ROWS for other text, and where a number stands for no row."""
    # One after the other: what JSON makes of a table takes as much memory as the table.
    tables = map(json.loads, parts)
    rows = Rows(
        Strings(_texts(next(tables))),
        Table(_texts(next(tables))),
        Table(map(tuple, next(tables))),
        [*map(tuple, next(tables))],
        Table(_texts(next(tables))),
        Table((tuple(items), tuple(events), tuple(given), *more) for items, events, given, *more in next(tables)),
        {
            root: RootReading(facts, tuple(questions), first, str(told), second)
            for root, (facts, questions, first, told, second) in next(tables).items()
        },
        int(next(tables)),
    )
    fact_sets, questions, summaries = rows.fact_sets.rows, rows.questions, rows.summaries.rows
    _check(chain.from_iterable(fact_sets), rows.facts.rows)
    _check([question[0] for question in questions], fact_sets)
    _check(chain.from_iterable(question[1:] for question in questions), questions)
    for number, (items, events, given, value, _) in enumerate(summaries):
        _check([*(item for item in items if item >= 0), *events, *given, max(value, 0)], rows.items.rows)
        _check([call(item)[0] for item in items if item < 0], range(number))
    for reading in rows.roots.values():
        _check([reading.facts], fact_sets)
        _check(reading.questions, questions)
        _check([max(reading.first, 0), max(reading.second, 0)], summaries)
    return rows


def _texts(table: list[str]) -> list[str]:
    if not all(type(text) is str for text in table):
        raise ValueError("no texts")
    return table


def _check(numbers: Iterable[int], rows: Sized) -> None:
    """Raises ValueError for what is no number of these rows."""
    used = set(numbers)
    if used and not (min(used) >= 0 and max(used) < len(rows) and {type(number) for number in used} == {int}):
        raise ValueError("no such row")
