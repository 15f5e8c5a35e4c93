"""Tables of plain values that are kept: rows have numbers, by which other rows refer to them.

Of a large project there are hundreds of thousands: numbers stand in arrays, and rows are text until they are needed.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from itertools import accumulate

from graphsafe.scan.domain.uses import Fact

PART = 10_000
as_text = json.JSONEncoder(separators=(",", ":")).encode


def numbers_text(numbers: Sequence[int]) -> str:
    """A list as JSON, made in parts: on the way each number takes ten times the memory."""
    parts = (str([*numbers[first : first + PART]])[1:-1] for first in range(0, len(numbers), PART))
    return f"[{','.join(parts)}]"


class Refused(ValueError):
    """A row that may not be kept."""


class Lists:
    """Lists of numbers, by number."""

    def __init__(self, lengths: Iterable[int] = (), numbers: Iterable[int] = ()) -> None:
        """Raises TypeError, ValueError or OverflowError for what are no such lengths and numbers."""
        self._ends = array("I", accumulate(lengths))
        self.numbers = array("I", numbers)
        if (self._ends[-1] if self._ends else 0) != len(self.numbers):
            raise ValueError("no such lists")

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, number: int) -> Sequence[int]:
        return self.numbers[self._ends[number - 1] if number else 0 : self._ends[number]]

    def __iter__(self) -> Iterator[Sequence[int]]:
        first = 0
        for end in self._ends:
            yield self.numbers[first:end]
            first = end

    def append(self, row: Iterable[int]) -> int:
        """The number of the new list."""
        self.numbers.extend(row)
        self._ends.append(len(self.numbers))
        return len(self._ends) - 1

    def text(self) -> str:
        return f"[{numbers_text([len(row) for row in self])},{numbers_text(self.numbers)}]"


class Table:
    """Rows of text; equal ones have one number."""

    def __init__(self, rows: Iterable[str] = (), refused: re.Pattern[str] | None = None) -> None:
        """A new row in which `refused` is found raises Refused."""
        self.rows = [*rows]
        self._refused = refused
        self._numbers: dict[str, int] = {}

    def number(self, row: str) -> int:
        """Raises Refused."""
        if len(self._numbers) < len(self.rows):
            self._numbers = {known: number for number, known in enumerate(self.rows)}
        number = self._numbers.get(row)
        if number is None:
            if self._refused is not None and self._refused.search(row):
                raise Refused(row)
            number = self._numbers[row] = len(self.rows)
            self.rows.append(row)
        return number


class Facts:
    """What earlier scans have used, and still says the same: each with a digest of that."""

    def __init__(self) -> None:
        self._digests: list[str] = []
        "By number, those of facts included that have changed since."
        self._numbers: dict[Fact, int] = {}

    def __len__(self) -> int:
        """How many numbers were given."""
        return len(self._digests)

    def number(self, fact: Fact, digest: Callable[[Fact], str]) -> int:
        """`digest` is called where the fact is not known."""
        number = self._numbers.get(fact)
        if number is None:
            number = self._numbers[fact] = len(self._digests)
            self._digests.append(digest(fact))
        return number

    def __iter__(self) -> Iterator[tuple[Fact, int, str]]:
        for fact, number in self._numbers.items():
            yield fact, number, self._digests[number]

    def forget(self, facts: Iterable[Fact]) -> set[int]:
        """They say something else now. Their numbers."""
        return {self._numbers.pop(fact) for fact in facts}

    def text(self, live: Set[int]) -> str:
        """As text, those with these numbers."""
        found: dict[str, list[object]] = {}
        for (kind, about, *more), number, digest in self:
            if number in live:
                found.setdefault(str(about), []).append((number, digest, kind, *more))
        # One after the other, for the same reason.
        rows = ",".join([f"{as_text(about)}:{as_text(rows)}" for about, rows in found.items()])
        return f"[{len(self)},{{{rows}}}]"


def parse_facts(text: str) -> Facts:
    """Raises one of NO_ROWS."""
    facts = Facts()
    count, found = json.loads(text)
    facts._digests = [""] * min(count, len(text))
    for about, rows in found.items():
        for number, digest, kind, *more in rows:
            if not (0 <= number < count and type(digest) is type(kind) is str):
                raise ValueError("no such fact")
            facts._numbers[(kind, about, *more)] = number
            facts._digests[number] = digest
    return facts
