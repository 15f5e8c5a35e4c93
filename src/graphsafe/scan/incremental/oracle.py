"""Answers for one reading of an edited function: those that its reading before the edit was given.

They hold as long as the function does to the rest of the scan what it did before: it asks first what it asked first,
has read what it had read, in the same order, and says the same to others. What it asks again, or what others had asked
before it, changes nothing and may come and go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from graphsafe.scan.domain.arguments import Call
from graphsafe.scan.domain.state_log import StateLog, Use
from graphsafe.scan.domain.values import Value
from graphsafe.scan.incremental.journal import (
    ADDED,
    FIRST,
    INNER,
    OWN,
    QUERIES,
    RAN,
    STABLE,
    WAY,
    EffectKind,
    Journal,
    MarkKind,
    QueryKind,
    outermost,
    parts_of,
    question_of,
    use_item,
)
from graphsafe.scan.incremental.reading import Item, Reading
from graphsafe.scan.incremental.value_table import Unwritable, ValueTable
from graphsafe.scan.symbols.project import Project

TACT = 2.0**-20
"Between two ticks of the clock of the scan before."
UNSEEN = -2
"In place of what an attribute held when it was asked for: it is not known."


class Unanswered(Exception):
    """What is asked now was not asked before: only a scan can tell."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What is known of the scan beside one function's readings."""

    readings: Callable[[str], Sequence[Reading]]
    "Of a function, as far as they are kept."
    answers: Mapping[str, Sequence[int]]
    "Query -> when it was asked first and last, and the last answer."
    changes: Mapping[str, int]
    "Class -> when its attributes changed last."
    state: StateLog


class Oracle(Journal):
    def __init__(
        self, project: Project, ref: str, reading: Reading, table: ValueTable, elsewhere: Elsewhere, state: StateLog
    ) -> None:
        self._project = project
        self._ref = ref
        self._reading = reading
        self._table = table
        self._elsewhere = elsewhere
        self._state = state
        self._old = [item for item in reading.items if item[0] not in OWN]
        self._position = 0
        self._places: dict[str, list[int]] = {}
        for i, item in enumerate(self._old):
            self._places.setdefault(_key(item), []).append(i)
        self.items: list[Item] = []
        "What this reading asks, to be kept for the next edit."

    def finish(self) -> None:
        """Raises Unanswered where something is missing that others rely on."""
        if not all(map(_may_go, self._old[self._position :])):
            raise Unanswered

    def call(self, call: Call, uses: int) -> Value:
        try:
            question = question_of(call, self._table)
        except Unwritable as error:
            raise Unanswered from error
        wanted: Item = ["call", question]
        item = self._next(wanted) or self._again(wanted) or self._read_before(question)
        if item is None:
            raise Unanswered
        if item[RAN]:
            self._state.clock = max(self._state.clock, item[3])
        return self._table.some(item[2])

    def ask(self, kind: QueryKind, owner: str, name: str) -> Value | None:
        wanted: Item = [kind, self._table.name(owner), self._table.name(name)]
        item = self._next(wanted) or self._again(wanted) or self._asked_before(kind, owner, name)
        if item is None:
            raise Unanswered
        return self._table.value(item[3])

    def mark(self, kind: MarkKind, key: str, first: bool) -> None:
        wanted: Item = [kind, self._table.name(key)]
        if self._next(wanted) is None and self._again(wanted) is None:
            before = self._elsewhere.state
            known = before.reads.get(key, inf) <= self._reading.clock
            if not (known if kind == "seen" else key in before.inputs):
                raise Unanswered
            self._kept([*wanted, 0])

    def effect(self, kind: EffectKind, owner: str, name: str, value: Value | None) -> bool:
        table = self._table
        try:
            wanted: Item = [kind, table.name(owner), table.name(name), table.number(value)]
        except Unwritable as error:
            raise Unanswered from error
        if self._next(wanted) is None:
            raise Unanswered
        return False

    def nested(self, ref: str, closure: int) -> None:
        if outermost(self._project, ref) != self._ref:
            raise Unanswered

    def use(self, use: Use, is_new: bool) -> bool:
        self._kept(use_item(use, is_new, self._table))
        return False

    def grown(self, uses: Sequence[Use]) -> bool:
        if uses:
            self._kept(["grown"])
        return bool(uses)

    def forget(self, uses: int) -> bool:
        self._kept(["forget", uses])
        return False

    # where the answers are

    def _next(self, wanted: Item) -> Item | None:
        """The item, if it is the next one but for such as may go."""
        items = self._old
        key = _key(wanted)
        for i in range(self._position, len(items)):
            if _key(items[i]) == key:
                self._position = i + 1
                return self._kept(items[i])
            if not _may_go(items[i]):
                break
        return None

    def _again(self, wanted: Item) -> Item | None:
        """The answer to what is asked elsewhere in the reading, if it is the same here."""
        items = self._old
        places = self._places.get(_key(wanted), ())
        if not places or any(i >= self._position and not _may_go(items[i]) for i in places):
            return None
        if _is_query(wanted):
            lasting = (items[i] for i in places if i < self._position and items[i][STABLE])
            item = next(lasting, None)
        else:
            item = items[places[0]] if len({_answer(items[i]) for i in places}) == 1 else None
        return None if item is None else self._kept(_repeated(item))

    def _read_before(self, question: int) -> Item | None:
        """A call that the scan had read for another caller."""
        wanted = parts_of(question, self._table)
        readings = self._elsewhere.readings(self._table.text(wanted.ref))
        known = [
            (parts_of(one.question, self._table), one.result) for one in readings if one.end < self._reading.serial
        ]
        # What engine.read answers from: hot code that nothing guards has shown all that the same code shows elsewhere.
        for hot_and_guarded in ((wanted.hot, wanted.guarded), (1, 0)):
            for one, result in known:
                if (one.given, one.open) == (wanted.given, wanted.open) and (one.hot, one.guarded) == hot_and_guarded:
                    return self._kept(["call", question, result, self._reading.clock, 0, "told", 0])
        return None

    def _asked_before(self, kind: QueryKind, owner: str, name: str) -> Item | None:
        """What others had asked for, where it has not changed since this reading began."""
        owners, names = self._table.name(owner), self._table.name(name)
        first, last, answer = self._elsewhere.answers.get(f"{kind} {owners} {names}", (0, 0, 0))
        changed = self._elsewhere.changes.get(owner, 0)
        serial = self._reading.serial
        if not last or first > serial or changed > serial or last < changed:
            return None
        return self._kept([kind, owners, names, answer, 0, 1, 0, UNSEEN, UNSEEN])

    def _kept(self, item: Item) -> Item:
        self.items.append(item)
        return item


def _key(item: Item) -> str:
    """What makes two items the same."""
    if item[0] == "call":
        return f"call {item[1]}"
    return " ".join(map(str, item[:3] if _is_query(item) else item[:2] if _is_mark(item) else item[:4]))


def _is_query(item: Item) -> bool:
    return item[0] in QUERIES


def _is_mark(item: Item) -> bool:
    return item[0] in ("seen", "input")


def _may_go(item: Item) -> bool:
    """Whether it changes nothing that the function asks this."""
    if item[0] == "call":
        return not item[RAN]
    if _is_query(item):
        return not item[FIRST]
    return _is_mark(item) and not item[2]


def _answer(item: Item) -> int:
    answer: int = 0 if _is_mark(item) else item[2]
    return answer


def _repeated(item: Item) -> Item:
    again = list(item)
    if item[0] == "call":
        again[RAN] = again[ADDED] = 0
        again[WAY] = "told" if item[WAY] == "read" else item[WAY]
    elif _is_query(item):
        again[FIRST] = again[INNER] = 0
    else:
        again[2] = 0
    return again
