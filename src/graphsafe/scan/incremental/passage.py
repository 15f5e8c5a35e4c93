"""What a reading that no other is around asked of the rest of the scan and did to it, with all within it, as one piece.

While nothing that it asks after is other than it was, what it did can be done at once (passing.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import islice

from graphsafe.scan.domain.frozen import dataclass
from graphsafe.scan.incremental.journal import QUERIES, MarkKind, QueryKind, parts_of
from graphsafe.scan.incremental.reading import Item
from graphsafe.scan.incremental.value_table import NOTHING, ValueTable
from graphsafe.scan.interpreter.attributes import CONSTRUCTED

KINDS = ("read", "done", "use", "seen", "input", *sorted(QUERIES))
"Of keys: the readings of a function, what was read of a class, state of the host, and the kinds of questions."
_KIND_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}
KIND_BITS, NUMBER_BITS = 4, 28
Pair = tuple[int, int]
"Class and attribute, in numbers of the table."


def key_of(kind: str, owner: int, name: int = 0) -> int:
    """One number for something that answers depend on; `owner` and `name` are numbers of the table."""
    return (owner << NUMBER_BITS | name) << KIND_BITS | _KIND_NUMBERS[kind]


def parts_of_key(key: int) -> tuple[str, int, int]:
    owner, name = divmod(key >> KIND_BITS, 1 << NUMBER_BITS)
    return KINDS[key % (1 << KIND_BITS)], owner, name


def keys_of_attribute(owner: int, name: int) -> Pair:
    """What depends on what an attribute holds."""
    return key_of("attribute", owner, name), key_of("initial", owner, name)


@dataclass(frozen=True, slots=True)
class Passage:
    """All in numbers of a table. Where there are rows they follow one another in one list."""

    serial: int
    "Of the reading around it all."
    until: float
    "The clock at its end."
    keys: Sequence[int]
    "What its answers depend on, and what it may have changed of that."
    readings: Sequence[int]
    "READING numbers each: serial, question, result, function, what makes it the same, hot, guarded. The outer is last."
    now: Sequence[int]
    "Class, attribute, and what that holds in the end; so for the next two."
    initial: Sequence[int]
    expected: Sequence[int]
    done: Sequence[int]
    "Class and method, as in AttributeTables.done."
    asked: Sequence[int]
    "Keys of questions that were asked for the first time."
    bound: Sequence[int]
    "Those of them whose answers last, and these: what classes and modules bind."
    seen: Sequence[int]
    "Attributes that hot code read for the first time."
    uses: Sequence[Item]
    "Uses of state that were new, and not forgotten."
    effects: Sequence[Item]
    "Other items, in their order."

    @property
    def question(self) -> int:
        return self.readings[1 - READING]

    @property
    def result(self) -> int:
        return self.readings[2 - READING]

    @property
    def questions(self) -> Sequence[int]:
        return self.readings[1::READING]

    @property
    def functions(self) -> Sequence[int]:
        return self.readings[3::READING]


READING = 7
PER_ROW = 256
_NAMES = tuple(field.name for field in fields(Passage))


def rows(flat: Sequence[int], width: int) -> Iterator[tuple[int, ...]]:
    return zip(*[iter(flat)] * width, strict=True)


def pairs(flat: Sequence[int]) -> Iterator[Pair]:
    return zip(flat[0::2], flat[1::2], strict=True)


def held(flat: Sequence[int]) -> Iterator[tuple[Pair, int]]:
    """Rows of an attribute and what it holds."""
    return zip(zip(flat[0::3], flat[1::3], strict=True), flat[2::3], strict=True)


def passage_text(passage: Passage) -> str:
    return json.dumps([getattr(passage, name) for name in _NAMES], separators=(",", ":"))


def row_names(count: int) -> list[str]:
    """Of the rows of so many passages: one for each would take longer to read, and one for all more memory to write."""
    return [f"passages {first}" for first in range(0, count, PER_ROW)]


def row_texts(texts: Iterable[str]) -> Iterator[str]:
    waiting = iter(texts)
    while some := [*islice(waiting, PER_ROW)]:
        yield f"[{','.join(some)}]"


def parse_passages(rows: Iterable[str]) -> list[Passage]:
    """In the order in which they began. Raises ValueError."""
    found = [Passage(*columns) for text in rows for columns in json.loads(text)]
    return sorted(found, key=lambda passage: passage.serial)


class Gathering:
    """A passage that is going on."""

    def __init__(self, table: ValueTable) -> None:
        self._table = table
        self._keys: set[int] = set()
        self._readings: list[int] = []
        self._now: dict[Pair, int] = {}
        self._initial: dict[Pair, int] = {}
        self._expected: dict[Pair, int] = {}
        self._done: list[int] = []
        self._asked: list[int] = []
        self._bound: list[int] = []
        self._seen: list[int] = []
        self._uses: list[Item] = []
        self._effects: list[Item] = []

    @property
    def keys(self) -> list[int]:
        return sorted(self._keys)

    def call(self, ref: str) -> None:
        self._keys.add(key_of("read", self._table.name(ref)))

    def read(self, serial: int, question: int, result: int) -> None:
        parts = parts_of(question, self._table)
        self._keys.add(key_of("read", parts.ref))
        self._readings += (serial, question, result, parts.ref, parts.given, parts.hot, parts.guarded)

    def ask(self, kind: QueryKind, owner: int, name: int, answer: int, is_first: bool) -> None:
        key = key_of(kind, owner, name)
        self._keys.add(key)
        if kind == "attribute" or kind == "initial":
            self._keys.add(key_of("done", owner))
        if is_first:
            self._asked.append(key)
            if kind == "class" or kind == "bound":
                self._bound += (key, answer)

    def mark(self, kind: MarkKind, name: int, first: bool) -> None:
        key = key_of(kind, name)
        if kind == "seen":
            if first:
                self._seen.append(name)
        elif key not in self._keys:
            self._effects.append([kind, name])
        self._keys.add(key)

    def hold(self, owner: int, name: int, now: int, first: int) -> None:
        """An attribute was recorded; `first` is what constructors leave, or NOTHING."""
        self._keys.update(keys_of_attribute(owner, name))
        self._now[owner, name] = now
        if first != NOTHING:
            self._initial[owner, name] = first

    def expect(self, owner: int, name: int, now: int, expected: int) -> None:
        self._keys.update(keys_of_attribute(owner, name))
        for held, number in ((self._now, now), (self._expected, expected)):
            if number != NOTHING:
                held[owner, name] = number

    def finish(self, ref: str, method: str = CONSTRUCTED) -> None:
        """What a method of a class assigns is known, or what constructors do."""
        self._done += (self._table.name(ref), self._table.name(method))

    def use(self, item: Item, is_new: bool) -> None:
        self._keys.add(key_of("use", item[1]))
        if is_new:
            self._uses.append(item)

    def forget(self, uses: int) -> None:
        del self._uses[len(self._uses) - uses :]

    def effect(self, item: Item) -> None:
        self._effects.append(item)

    def passage(self, serial: int, until: float) -> Passage:
        return Passage(
            serial,
            until,
            self.keys,
            self._readings,
            _flat(self._now),
            _flat(self._initial),
            _flat(self._expected),
            self._done,
            self._asked,
            self._bound,
            self._seen,
            self._uses,
            self._effects,
        )


def _flat(numbers: dict[Pair, int]) -> list[int]:
    return [part for pair, number in numbers.items() for part in (*pair, number)]
