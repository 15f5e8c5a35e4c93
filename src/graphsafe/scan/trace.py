"""What a scan leaves to be gone through again: where its readings began, and all of them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from graphsafe.scan.journal import INNER, QUERIES, outermost, parts_of
from graphsafe.scan.oracle import Unanswered
from graphsafe.scan.project import Project
from graphsafe.scan.reader import Step
from graphsafe.scan.reading import Item, Reading, parse_row
from graphsafe.scan.record import Record
from graphsafe.scan.value_table import ValueTable


@dataclass(frozen=True, slots=True)
class Trace:
    table: ValueTable
    record: Record
    steps: Sequence[Step]
    readings: Mapping[int, Reading]
    "Question -> reading."
    heads: Mapping[str, str]
    "Function -> digest of what others than its readings look at."
    closed: frozenset[str]
    "Functions that share what they define inside with others."

    def naming(self, attributes: Collection[str], project: Project) -> Iterator[str]:
        """The functions whose readings name one of these attributes, whatever class's."""
        if not attributes:
            return
        table = self.table
        names = {table.name(name) for name in attributes}
        ends = tuple(f".{name}" for name in attributes)

        def names_one(item: Item) -> bool:
            kind = item[0]
            if kind in QUERIES:
                return item[2] in names or bool(item[INNER] and any(map(names_one, item[INNER])))
            if kind in ("record", "expect"):
                return item[2] in names
            return kind in ("seen", "input", "use") and table.text(item[1]).endswith(ends)

        for reading in self.readings.values():
            if any(map(names_one, reading.items)):
                yield table.text(parts_of(reading.question, table).ref)
        for write in self.record.state.writes.values():
            if write.key.endswith(ends) or any(source.endswith(ends) for source in write.sources):
                yield outermost(project, f"{write.path}::{write.function}")


def parse_trace(course: str, rows: Mapping[str, str], table: ValueTable, record: Record) -> Trace:
    """`course` and `rows` as the recorder wrote them, `rows` by function. Raises Unanswered where some are missing."""
    steps, count = json.loads(course) if course else ((), None)
    if len(rows) != count:
        raise Unanswered
    readings: dict[int, Reading] = {}
    heads: dict[str, str] = {}
    closed: set[str] = set()
    for ref, text in rows.items():
        heads[ref], is_closed, made = parse_row(text)
        readings.update((reading.question, reading) for reading in made)
        if is_closed:
            closed.add(ref)
    taken = [Step(kind, table.text(ref), why, table.value(receiver)) for kind, ref, why, receiver in steps]
    return Trace(table, record, taken, readings, heads, frozenset(closed))
