"""The readings of one function, as text and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from graphsafe.scan.domain.frozen import dataclass

Item = list[Any]
"What a reading asked, was told, or did, as the recorder writes it."


@dataclass(frozen=True, slots=True)
class Reading:
    question: int
    order: Sequence[str]
    "Of the keywords, as the call had them."
    result: int
    serial: int
    end: int
    clock: float
    "When it began."
    until: float
    parent: int
    "The serial of the reading in which it was made."
    text: str
    "Its items: read when somebody asks, since those of a whole scan would take hundreds of megabytes."

    @property
    def items(self) -> list[Item]:
        found: list[Item] = json.loads(self.text)
        return found


def reading_text(reading: Reading) -> str:
    times = (reading.serial, reading.end, reading.clock, reading.until, reading.parent)
    head = (reading.question, reading.order, reading.result, *times)
    return f"{json.dumps(head, separators=(',', ':'))}\t{reading.text}"


def items_text(items: Sequence[Item]) -> str:
    return json.dumps(items, separators=(",", ":"))


def row_text(head: str, is_closed: bool, readings: Iterable[str]) -> str:
    """`readings` as texts. `head`: a digest of what others look at; `is_closed`: none can be made again by itself."""
    return "\n".join([f"{head} {int(is_closed)}", *readings])


def parse_row(text: str) -> tuple[str, bool, list[Reading]]:
    """Raises ValueError."""
    first, *lines = text.split("\n")
    head, is_closed = first.split(" ")
    readings = []
    for line in lines:
        front, items = line.split("\t")
        fields: list[Any] = [*json.loads(front), items]
        readings.append(Reading(*fields))
    return head, is_closed == "1", readings
