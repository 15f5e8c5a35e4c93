"""What reading each root gave in earlier scans, and what that rests on, as tables of plain values.

A summary refers to the summaries of what it calls, an answer to the questions that it asked, each by its number. All of
it is JSON in the cache.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from graphsafe.scan.incremental.encoding import decoded, encoded, strings_table
from graphsafe.scan.incremental.tables import Facts, Lists, Table, as_text, numbers_text

PARTS = ("facts", "strings", "fact sets", "used", "asked", "items", "summaries", "roots")
"What is kept of rows."
NO_ROWS = (ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError)
"What text raises that is no such table, or stands for nothing that it should."
UNKNOWN = -1


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


@dataclass(slots=True)
class Rows:
    """Numbers refer to rows of the other tables."""

    facts: Facts = field(default_factory=Facts)
    strings: Table = field(default_factory=strings_table)
    fact_sets: Lists = field(default_factory=Lists)
    used: array[int] = field(default_factory=lambda: array("I"))
    "Question -> the set of facts that its answer rests on."
    asked: Lists = field(default_factory=Lists)
    "Question -> the questions that its answer rests on."
    items: Table = field(default_factory=Table)
    "Items of summaries and events."
    summaries: Table = field(default_factory=Table)
    """Items, where a number below 0 stands for a call; events; what is put into fields; the value of a root, or -1.

    What is called is written before what calls it. The last number tells summaries apart that are equal: in the order
    of a step each counts by itself.
    """
    roots: dict[str, RootReading] = field(default_factory=dict)
    rests: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    "What the rest of the scan rests on, by process: a set of facts, and questions."
    replaced: int = 0
    "Readings that others have taken the place of: their rows are still there."


def live_facts(rows: Rows) -> set[int]:
    """The facts that any reading rests on, through however many questions, or the rest of the scan."""
    sets = {reading.facts for reading in rows.roots.values()}
    waiting = [question for reading in rows.roots.values() for question in reading.questions]
    for facts, questions in rows.rests:
        sets.add(facts)
        waiting += questions
    seen = bytearray(len(rows.asked))
    while waiting:
        question = waiting.pop()
        if not seen[question]:
            seen[question] = 1
            sets.add(rows.used[question])
            waiting += rows.asked[question]
    return {fact for used in sets for fact in rows.fact_sets[used]}


def resting_on(rows: Rows, facts: Set[int]) -> set[str]:
    """The roots whose readings rest on any of these facts."""
    if not facts:
        return set()
    changed_sets = {number for number, row in enumerate(rows.fact_sets) if not facts.isdisjoint(row)}
    users: list[list[int]] = [[] for _ in rows.asked]
    for number, asked in enumerate(rows.asked):
        for question in asked:
            users[question].append(number)
    waiting = [number for number, used in enumerate(rows.used) if used in changed_sets]
    changed = set(waiting)
    while waiting:
        for user in users[waiting.pop()]:
            if user not in changed:
                changed.add(user)
                waiting.append(user)
    return {
        root
        for root, reading in rows.roots.items()
        if reading.facts in changed_sets or not changed.isdisjoint(reading.questions)
    }


def add(rows: Rows, others: Rows, roots: Mapping[str, RootReading]) -> None:
    """Add to `rows` these roots of `others` and its rests, with all that they refer to, under new numbers."""
    copy = _Copy(rows, others)
    for root, reading in roots.items():
        rows.roots[root] = RootReading(
            copy.fact_set(reading.facts),
            copy.questions.of(reading.questions),
            copy.summary(reading.first),
            reading.told,
            copy.summary(reading.second),
        )
    rows.rests += [(copy.fact_set(facts), copy.questions.of(questions)) for facts, questions in others.rests]
    copy.close()


class QuestionNumbers:
    """New numbers for the questions that are met, and for all that these asked."""

    def __init__(self, count: int, first: int, asked: Callable[[int], Iterable[int]]) -> None:
        """`count` questions have old numbers; new ones begin with `first`."""
        self.met = array("I")
        "Questions in the order of their new numbers."
        self._numbers = array("i", [UNKNOWN]) * count
        self.first = first
        self._asked = asked

    def of(self, questions: Iterable[int]) -> tuple[int, ...]:
        questions = tuple(questions)
        waiting = [*questions]
        while waiting:
            question = waiting.pop()
            if self._numbers[question] == UNKNOWN:
                self._numbers[question] = self.first + len(self.met)
                self.met.append(question)
                waiting += self._asked(question)
        return tuple([self._numbers[question] for question in questions])


class _Copy:
    """From old numbers to new ones, row by row."""

    def __init__(self, rows: Rows, others: Rows) -> None:
        self._rows = rows
        self._others = others
        digests = {fact: digest for fact, _, digest in others.facts}
        self._facts = {number: rows.facts.number(fact, digests.__getitem__) for fact, number, _ in others.facts}
        self._fact_sets: dict[int, int] = {}
        self.questions = QuestionNumbers(len(others.asked), len(rows.asked), others.asked.__getitem__)
        self._summaries: dict[int, int] = {}
        self._items: dict[int, int] = {}

    def fact_set(self, number: int) -> int:
        if number not in self._fact_sets:
            # A fact is missing that said something else in the first round than in the second.
            new = sorted(self._facts[fact] for fact in self._others.fact_sets[number] if fact in self._facts)
            self._fact_sets[number] = self._rows.fact_sets.append(new)
        return self._fact_sets[number]

    def summary(self, number: int) -> int:
        if number < 0:
            return number
        if number not in self._summaries:
            *lists, value, which = json.loads(self._others.summaries.rows[number])
            numbers = [[self._item(item) for item in items] for items in lists]
            row = (*numbers, self._item(value) if value >= 0 else value, which)
            self._summaries[number] = self._rows.summaries.number(as_text(row))
        return self._summaries[number]

    def _item(self, number: int) -> int:
        if number < 0:
            called, how = call(number)
            return call_number(self.summary(called), how)
        if number not in self._items:
            item = decoded(self._others.items.rows[number], self._others.strings)
            self._items[number] = self._rows.items.number(encoded(item, self._rows.strings))
        return self._items[number]

    def close(self) -> None:
        """Write the questions that were met."""
        for number in self.questions.met:
            self._rows.used.append(self.fact_set(self._others.used[number]))
            self._rows.asked.append(self.questions.of(self._others.asked[number]))


def call_number(summary: int, how: int) -> int:
    """The number of an item that is a call; `how`: from 0 to 3."""
    return -1 - (summary << 2 | how)


def call(number: int) -> tuple[int, int]:
    """The summary and how it is called."""
    return (-1 - number) >> 2, (-1 - number) & 3


def parts_of(rows: Rows) -> Iterator[str]:
    """As text: PARTS, but for the facts."""
    roots = {root: (r.facts, r.questions, r.first, r.told, r.second) for root, r in rows.roots.items()}
    yield as_text(rows.strings.rows)
    yield rows.fact_sets.text()
    yield numbers_text(rows.used)
    yield rows.asked.text()
    for table in (rows.items, rows.summaries):
        yield "\n".join(table.rows)
    yield as_text((roots, rows.rests, rows.replaced))


def rows_of(facts: Facts, parts: Iterable[str]) -> Rows:
    """Raises one of NO_ROWS for other text, and where a number stands for no row."""
    strings, fact_sets, used, asked, items, summaries, roots = parts
    known, rests, replaced = json.loads(roots)
    rows = Rows(
        facts,
        strings_table(_texts(json.loads(strings))),
        Lists(*json.loads(fact_sets)),
        array("I", json.loads(used)),
        Lists(*json.loads(asked)),
        Table(items.split("\n") if items else ()),
        Table(summaries.split("\n") if summaries else ()),
        {root: RootReading(own, tuple(questions), *more) for root, (own, questions, *more) in known.items()},
        [(own, tuple(questions)) for own, questions in rests],
        int(replaced),
    )
    readings = [*rows.roots.values()]
    direct = [*((reading.facts, reading.questions) for reading in readings), *rows.rests]
    _check(rows.fact_sets.numbers, len(facts))
    _check([*rows.used, *(own for own, _ in direct)], len(rows.fact_sets))
    _check([*rows.asked.numbers, *(number for _, questions in direct for number in questions)], len(rows.asked))
    _check([number for each in readings for number in (each.first + 1, each.second + 1)], len(rows.summaries.rows) + 1)
    if len(rows.used) != len(rows.asked):
        raise ValueError("no such questions")
    return rows


def _texts(table: Any) -> list[str]:
    if type(table) is not list or not all(type(text) is str for text in table):
        raise ValueError("no texts")
    return table


def _check(numbers: Sequence[int], count: int) -> None:
    """Raises TypeError or ValueError for what is no number of so many rows."""
    if len(numbers) and not 0 <= min(numbers) <= max(numbers) < count:
        raise ValueError("no such row")
