"""What readings did to the rest of the scan, and what it told them: done again item by item, without the reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence

from graphsafe.scan.domain.record import SITE
from graphsafe.scan.domain.state_log import Use
from graphsafe.scan.domain.values import Tensor, Value
from graphsafe.scan.incremental.footprint import Edit
from graphsafe.scan.incremental.journal import ADDED, EXPECTED, FIRST, HELD, INNER, QueryKind
from graphsafe.scan.incremental.moves import Move
from graphsafe.scan.incremental.oracle import Unanswered
from graphsafe.scan.incremental.passage import Pair, Passage, held, key_of, pairs
from graphsafe.scan.incremental.reading import Item
from graphsafe.scan.incremental.value_table import NOTHING, ValueTable
from graphsafe.scan.interpreter.attributes import CONSTRUCTED, Key
from graphsafe.scan.interpreter.engine import Engine
from graphsafe.scan.symbols.project import Binding


class Numbers(MutableMapping[Key, Value]):
    """Values of attributes, as numbers of a table; `value` gives the value of a number."""

    def __init__(self, table: ValueTable, value: Callable[[int], Value], touch: Callable[[Pair], None]) -> None:
        """`touch` is told of an attribute that will hold something else."""
        self._table = table
        self._value = value
        self._touch = touch
        self.numbers: dict[Pair, int] = {}

    def __getitem__(self, key: Key) -> Value:
        return self._value(self.numbers[self._key(key)])

    def __setitem__(self, key: Key, value: Value) -> None:
        pair = self._key(key)
        self._touch(pair)
        self.numbers[pair] = self._table.any_number(value)

    def __delitem__(self, key: Key) -> None:
        pair = self._key(key)
        self._touch(pair)
        del self.numbers[pair]

    def __iter__(self) -> Iterator[Key]:
        for owner, name in self.numbers:
            yield self._table.text(owner), self._table.text(name)

    def __len__(self) -> int:
        return len(self.numbers)

    def _key(self, key: Key) -> Pair:
        return self._table.name(key[0]), self._table.name(key[1])


class Deeds:
    def __init__(
        self,
        engine: Engine,
        table: ValueTable,
        read: Callable[[int, Item], int],
        value: Callable[[int], Value | None],
        reads: Mapping[str, float],
        moves: Mapping[str, Move],
        edit: Edit,
    ) -> None:
        """`read` answers a call, that an item asks; `value` gives the value of a number.

        `reads`: when hot code first read an attribute then. `moves`: from the lines of then to today's.
        """
        self._engine = engine
        self._state = engine.state
        self._table = table
        self._read = read
        self._value = value
        self._reads = reads
        self._moves = moves
        self._attributes = frozenset(map(table.name, edit.attributes))
        self._bindings = frozenset((table.name(path), table.name(name)) for path, name in edit.bindings)
        self._asked: set[int] = set()
        "Questions that were answered, for which nothing is left to be read."
        self._held: set[Pair] = set()
        "The attributes among them."
        self.asked_first: list[int] = []
        "The keys of questions that were asked first since this was cleared, as is the next by others."
        self.held_before: dict[Pair, tuple[int, int, int]] = {}
        "What attributes held before they were changed: now, initially, and as expected."
        self._noted: set[int] = set()
        "Attributes of which it is known when hot code first read them."
        self._answers: dict[int, int] = {}
        "By key: what classes and modules bind, which is found out once."
        self._now = Numbers(table, self.some, self._touch)
        self._initial = Numbers(table, self.some, self._touch)
        self._expected = Numbers(table, self.some, self._touch)
        engine.attributes.now = self._now
        engine.attributes.initial_values = self._initial
        engine.attributes.expected = self._expected

    def repeat(self, items: Sequence[Item], uses: list[tuple[int, int]]) -> int:
        """Do what a reading did as long as the answers are the same: how many of its items.

        `uses` gets from which item on there were how many uses of state.
        """
        known = self._state.uses
        count = len(known)
        uses.append((0, count))
        held, now, expected, noted = self._held, self._now.numbers, self._expected.numbers, self._noted
        for i, item in enumerate(items):
            kind = item[0]
            if kind == "attribute":
                key = (item[1], item[2])
                if key in held and now.get(key, NOTHING) == item[HELD] and expected.get(key, NOTHING) == item[EXPECTED]:
                    continue
            elif kind == "seen" and item[1] in noted:
                continue
            if not self._holds(kind, item):
                return i
            if len(known) != count:
                count = len(known)
                uses.append((i + 1, count))
        return len(items)

    def answer(self, kind: QueryKind, owner: str, name: str) -> int | None:
        """What a class or a module binds, if that has been found out."""
        return self._answers.get(key_of(kind, self._table.name(owner), self._table.name(name)))

    def note(self, kind: QueryKind, owner: str, name: str, value: Value | None) -> None:
        """A question has been answered."""
        key = key_of(kind, self._table.name(owner), self._table.name(name))
        self._ask(key)
        if kind == "class" or kind == "bound":
            self._answers[key] = self._table.any_number(value)

    def know(self, passage: Passage) -> None:
        """What was asked first in it, and what attributes hold after it."""
        self._asked.update(passage.asked)
        self._answers.update(pairs(passage.bound))
        self._now.numbers.update(held(passage.now))
        self._initial.numbers.update(held(passage.initial))
        self._expected.numbers.update(held(passage.expected))

    def answered(self, key: int) -> int:
        """The answer, for what is found out once; else NOTHING."""
        return self._answers.get(key, NOTHING)

    def held(self, pair: Pair) -> tuple[int, int, int]:
        """What an attribute holds: now, initially, and as expected."""
        now, initial, expected = self._now.numbers, self._initial.numbers, self._expected.numbers
        return now.get(pair, NOTHING), initial.get(pair, NOTHING), expected.get(pair, NOTHING)

    def _touch(self, pair: Pair) -> None:
        if pair not in self.held_before:
            self.held_before[pair] = self.held(pair)

    def _ask(self, key: int) -> None:
        if key not in self._asked:
            self._asked.add(key)
            self.asked_first.append(key)

    def _holds(self, kind: str, item: Item) -> bool:
        state = self._state
        if kind == "call":
            uses = len(state.uses)
            if self._read(item[1], item) != item[2]:
                return False
            state.clock = max(state.clock, item[3])
            return len(state.uses) - uses == int(item[ADDED])
        if kind == "attribute" or kind == "initial":
            return self._has_held(item[0], item)
        if kind == "class" or kind == "bound":
            return self._is_bound(item[0], item)
        if kind == "seen":
            key = self._table.text(item[1])
            if key not in state.reads:
                if not item[2] or key not in self._reads:
                    return False
                state.reads[key] = self._reads[key]
            self._noted.add(item[1])
            return True
        if kind == "use":
            return self.use(item) == bool(item[-1])
        self.do(kind, item)
        return True

    def do(self, kind: str, item: Item) -> None:
        """What readings do to others, and ask nothing for."""
        engine, text = self._engine, self._table.text
        if kind == "record":
            self._record(item)
        elif kind == "input":
            self._state.inputs.add(text(item[1]))
        elif kind == "forget":
            self._state.forget_uses(len(self._state.uses) - int(item[1]))
        elif kind == "later":
            engine.queue.append((text(item[1]), self._value(item[3]), bool(text(item[2]))))
        elif kind == "root":
            engine.record.roots.setdefault(text(item[1]), text(item[2]))
            engine.queue.append((text(item[1]), self._value(item[3]), False))
        elif kind == "site":
            engine.record.roots.setdefault(text(item[1]), SITE)
        elif kind == "expect":
            engine.attributes.keep_expected(text(item[1]), text(item[2]), self.some(item[3]))
        elif kind == "passed":
            tensor = self.some(item[3])
            assert isinstance(tensor, Tensor)
            engine.passed.keep(text(item[1]), tensor)
        elif kind != "grown":
            raise Unanswered

    def _record(self, item: Item) -> None:
        _, owner, name, value, known, first_known, now, first = item
        key = (owner, name)
        attributes = self._engine.attributes
        was_constructing = first != NOTHING
        self._touch(key)
        if (
            self._now.numbers.get(key, NOTHING) == known
            and self._initial.numbers.get(key, NOTHING) == first_known
            and (self._table.text(owner) in attributes.under_construction) == was_constructing
        ):
            self._now.numbers[key] = now
            if was_constructing:
                self._initial.numbers[key] = first
        else:
            attributes.record(self._table.text(owner), self._table.text(name), self.some(value))

    def use(self, item: Item) -> bool:
        """Whether it is the first of its place."""
        use = self.use_of(item)
        was_new = use.place not in self._state.uses
        self._state.use(use)
        return was_new

    def use_of(self, item: Item) -> Use:
        """With today's lines."""
        _, key, kind, path_number, function, line, order, _ = item
        text = self._table.text
        path = text(path_number)
        move = self._moves.get(path)
        name = text(function)
        if move is not None:
            line, name = move.line(line), move.name(name)
        return Use(text(key), kind, path, name, line, order)

    def _has_held(self, kind: QueryKind, item: Item) -> bool:
        owner, name = item[1], item[2]
        query = key_of(kind, owner, name)
        key = (owner, name)
        if name in self._attributes:
            return self._ask_anew(kind, item)
        if query not in self._asked:
            is_ready = bool(item[FIRST]) and (not item[INNER] or self._work(item[INNER]))
            self._ask(query)
            if not is_ready:
                return self._ask_anew(kind, item)
        if kind == "attribute":
            self._held.add(key)
        now, initial, expected = self.held(key)
        if ((initial, NOTHING) if kind == "initial" else (now, expected)) == (item[HELD], item[EXPECTED]):
            return True
        return self._ask_anew(kind, item)

    def _ask_anew(self, kind: QueryKind, item: Item) -> bool:
        owner, name = self._table.text(item[1]), self._table.text(item[2])
        attributes = self._engine.attributes
        answer = attributes.initial(owner, name) if kind == "initial" else attributes.of_instance(owner, name)
        return bool(self._table.any_number(answer) == item[3])

    def _is_bound(self, kind: QueryKind, item: Item) -> bool:
        query = key_of(kind, item[1], item[2])
        if query not in self._answers:
            is_edited = item[2] in self._attributes if kind == "class" else (item[1], item[2]) in self._bindings
            if item[FIRST] and not is_edited and (not item[INNER] or self._work(item[INNER])):
                self._ask(query)
                self._answers[query] = item[3]
            else:
                # It may have come to be something else, or whoever asked for it first does not ask now.
                owner, name = self._table.text(item[1]), self._table.text(item[2])
                if kind == "class":
                    self._engine.attributes.of_class(owner, name)
                else:
                    self._engine.globals.bound(Binding("assign", name, owner))
        return bool(self._answers[query] == item[3])

    def _work(self, items: Sequence[Item]) -> bool:
        """Do what it took to answer; False where it takes more now."""
        attributes = self._engine.attributes
        text = self._table.text
        constructing = skipped = 0
        for i, item in enumerate(items):
            kind = item[0]
            if skipped:
                skipped += (kind == "construct") - (kind == "constructed")
            elif kind == "construct":
                if (text(item[1]), CONSTRUCTED) in attributes.done:
                    skipped = 1
                else:
                    constructing += 1
                    attributes.done.add((text(item[1]), CONSTRUCTED))
                    attributes.under_construction.append(text(item[1]))
            elif kind == "constructed":
                constructing -= 1
                attributes.under_construction.pop()
            elif kind == "needs":
                done = text(item[1]), text(item[2])
                if done not in attributes.done:
                    if item[3]:
                        return False
                    attributes.done.add(done)
                    self._read(items[i + 1][1], items[i + 1])
            elif kind == "call" and i and items[i - 1][0] == "needs" and not items[i - 1][3]:
                continue  # made where it is needed
            elif kind == "call" and constructing:
                self._read(item[1], item)  # what constructors return is nobody's concern
            elif kind == "call" and self._read(item[1], item) != item[2]:
                return False
            elif kind != "call" and not self._holds(kind, item):
                if constructing:
                    raise Unanswered
                return False
        return True

    def some(self, number: int) -> Value:
        """The value of a number that stands for one."""
        value = self._value(number)
        assert value is not None
        return value
