"""What a scan leaves to be gone through again: where its readings began, its passages, and its readings when needed."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from graphsafe.scan.domain.record import Record
from graphsafe.scan.incremental.journal import INNER, QUERIES, outermost, parts_of
from graphsafe.scan.incremental.oracle import Unanswered
from graphsafe.scan.incremental.passage import Passage, parse_passages, parts_of_key, row_names
from graphsafe.scan.incremental.reading import Item, Reading, parse_row
from graphsafe.scan.incremental.value_table import ValueTable
from graphsafe.scan.interpreter.driver import Step
from graphsafe.scan.symbols.project import Project

Rows = Callable[[Sequence[str]], Mapping[str, str]]
"What is kept of these functions, or under these names, as the recorder wrote it."


class Trace:
    def __init__(self, course: str, rows: Rows, table: ValueTable, record: Record) -> None:
        """`course` as the recorder wrote it. Raises Unanswered where there is none, or not all that belongs to it."""
        if not course:
            raise Unanswered
        steps, parameters, closed, count = json.loads(course)
        names = row_names(count)
        passages = rows(names)
        if len(passages) < len(names):
            raise Unanswered
        self.table = table
        self.record = record
        self.steps = [Step(kind, table.text(ref), why, table.value(of), keys) for kind, ref, why, of, keys in steps]
        self.parameters: Mapping[str, Sequence[str]] = parameters
        "Of roots that were asked for them. An edit that leaves a function's header alone leaves these as they are."
        self.closed: frozenset[str] = frozenset(closed)
        "Functions that share what they define inside with others."
        self.passages: Sequence[Passage] = parse_passages(passages.values())
        self._rows = rows
        self._read: set[int] = set().union(*(passage.functions for passage in self.passages))
        "Functions of which there are readings."
        self.questions: set[int] = set().union(*(passage.questions for passage in self.passages))
        "Those of all readings."
        self._heads: dict[int, str] = {}
        self._readings: dict[int, list[Reading]] = {}
        self._by_question: dict[int, Reading] = {}

    def head(self, ref: str) -> str:
        """A digest of what others than a function's readings look at; empty where there are none."""
        self.readings(ref)
        return self._heads.get(self.table.name(ref), "")

    def readings(self, ref: str) -> Sequence[Reading]:
        """Those of a function, in the order in which they ended. Raises Unanswered where they are no longer kept."""
        number = self.table.name(ref)
        self.load([number])
        return self._readings.get(number, ())

    def reading(self, question: int) -> Reading | None:
        self.load([parts_of(question, self.table).ref])
        return self._by_question.get(question)

    def load(self, functions: Iterable[int]) -> None:
        """The readings of these will be asked for. Raises Unanswered where they are no longer kept."""
        missing = {number for number in functions if number in self._read and number not in self._readings}
        names = {self.table.text(number): number for number in missing}
        found = self._rows([*names]) if names else {}
        for name, number in names.items():
            if name not in found:
                raise Unanswered
            self._heads[number], _, made = parse_row(found[name])
            self._readings[number] = made
            self._by_question.update((reading.question, reading) for reading in made)

    def naming(self, attributes: Collection[str], project: Project) -> Iterator[str]:
        """The functions whose readings name one of these attributes, whatever class's."""
        if not attributes:
            return
        table = self.table
        names = {table.name(name) for name in attributes}
        ends = tuple(f".{name}" for name in attributes)

        def key_names_one(key: int) -> bool:
            kind, owner, name = parts_of_key(key)
            return name in names if kind in QUERIES else table.text(owner).endswith(ends)

        def names_one(item: Item) -> bool:
            kind = item[0]
            if kind in QUERIES:
                return item[2] in names or bool(item[INNER] and any(map(names_one, item[INNER])))
            if kind in ("record", "expect"):
                return item[2] in names
            return kind in ("seen", "input", "use") and table.text(item[1]).endswith(ends)

        keys = {key for key in set().union(*(passage.keys for passage in self.passages)) if key_names_one(key)}
        refs = {ref for passage in self.passages if not keys.isdisjoint(passage.keys) for ref in passage.functions}
        self.load(refs)
        for ref in refs:
            if any(map(names_one, (item for reading in self._readings[ref] for item in reading.items))):
                yield table.text(ref)
        for write in self.record.state.writes.values():
            if write.key.endswith(ends) or any(source.endswith(ends) for source in write.sources):
                yield outermost(project, f"{write.path}::{write.function}")
