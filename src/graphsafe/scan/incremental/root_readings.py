"""What earlier scans still answer of single roots, and what this scan leaves to later ones.

A root is read anew if any fact has changed that its reading rests on, through however many questions. For all others
the summaries of the last time hold. They are put together as those that are read anew (linting/gather.py).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from graphsafe.scan.domain.queries import Queries, Rests
from graphsafe.scan.domain.summary import Field, Summary
from graphsafe.scan.domain.values import Value
from graphsafe.scan.incremental.encoding import Unkept, decoded, encoded
from graphsafe.scan.incremental.fact_digests import CONSTRUCTIONS, FactDigests
from graphsafe.scan.incremental.rows import NO_ROWS, RootReading, Rows, add, parts_of, rows_of
from graphsafe.scan.incremental.summary_rows import SummaryReader, SummaryWriter

ENOUGH = 0.5
"If fewer of the roots are known, hardly anything is gained."


class RootReadings:
    """Roots have names, which the driver gives them."""

    def __init__(self, parts: Sequence[str], digests: FactDigests) -> None:
        """`parts` is what an earlier scan has left, as `parts()` gives it, or anything else."""
        self._digests = digests
        self._rows = Rows()
        self._unknown: set[str] = set()
        "Roots whose readings no longer hold."
        self._first: dict[str, int] = {}
        self._second: dict[str, int] = {}
        "Root that was read anew -> its summary of the first round, and of the second."
        self._unkept: set[str] = set()
        self._used: dict[str, None] = {}
        try:
            self._rows = rows_of(parts)
            self._unknown = self._changed(is_second=False)
        except NO_ROWS:
            self._rows = Rows()
        if len(self._unknown) > len(self._rows.roots) * (1 - ENOUGH):
            self._rows = Rows()
        self._reader = SummaryReader(self._rows, digests.first_line)

    @property
    def is_empty(self) -> bool:
        return not self._rows.roots

    def first(self, root: str) -> Summary | None:
        """What reading a root gives in the first round; None where it has to be read."""
        reading = self._known(root)
        return self._summary(root, reading.first) if reading is not None else None

    def begin_second_round(self, constructions: Mapping[Field, Sequence[Value]]) -> None:
        self._digests.learn(constructions)
        self._unknown |= self._changed(is_second=True)

    def second(self, root: str, told: str) -> Summary | None:
        """The same in the second round, which knows `told` of the root's parameters."""
        reading = self._known(root)
        return self._summary(root, reading.second) if reading is not None and reading.told == told else None

    def _changed(self, is_second: bool) -> set[str]:
        """The roots whose readings rest on a fact that has changed, of those known in the first round or the others."""
        facts: set[int] = set()
        for number, text in enumerate(self._rows.facts.rows):
            fact, before = decoded(text, self._rows.strings)
            if (fact[0] == CONSTRUCTIONS) == is_second and self._digests.of(fact) != before:
                facts.add(number)
        return _resting_on(self._rows, facts)

    def _known(self, root: str) -> RootReading | None:
        return None if root in self._unknown else self._rows.roots.get(root)

    def _summary(self, root: str, number: int) -> Summary | None:
        if number < 0:
            return None
        try:
            found = self._reader.summary(number)
        except Unkept:
            self._unknown.add(root)
            return None
        self._used[root] = None
        return found

    # what this scan has read anew

    def keep_first(self, read: Mapping[str, Summary]) -> None:
        """The summaries of the first round, before the second changes them."""
        self._keep(read, self._first)

    def keep_second(self, read: Mapping[str, Summary]) -> None:
        """The summaries of the second round."""
        self._keep(read, self._second)

    def _keep(self, read: Mapping[str, Summary], numbers: dict[str, int]) -> None:
        writer = SummaryWriter(self._rows, self._digests.first_line)
        for root, summary in read.items():
            try:
                numbers[root] = writer.number(summary)
            except Unkept:
                self._unkept.add(root)

    def keep_rests(self, read: Mapping[str, tuple[Rests, str]], queries: Queries) -> None:
        """What that rests on which was read anew, in both rounds, and what the second knew of a root's parameters."""
        rows = self._rows
        earlier: dict[str, tuple[int, ...]] = {}
        for root in read:
            before = rows.roots.get(root)
            if before is not None and root not in self._first:
                # Only the second round was read anew: what the first one rested on counts as well.
                self._first[root] = before.first
                rows.questions.append((before.facts, *before.questions))
                earlier[root] = (len(rows.questions) - 1,)
        keeper = _Keeper(rows, queries, self._digests)
        for root, (rests, told) in read.items():
            rows.replaced += rows.roots.pop(root, None) is not None
            if root in self._unkept:
                continue
            facts = keeper.fact_set(array("I", sorted(rests.facts)).tobytes())
            questions = (*earlier.get(root, ()), *keeper.questions(rests.asked))
            first = self._first.get(root, -1)
            rows.roots[root] = RootReading(facts, questions, first, told, self._second.get(root, -1))
            self._used[root] = None
        keeper.close()

    def add(self, parts: Sequence[str]) -> None:
        """What another process has left."""
        others = rows_of(parts)
        add(self._rows, others, others.roots)
        self._used.update(dict.fromkeys(others.roots))

    def parts(self) -> Iterator[str]:
        """What this scan leaves, as text."""
        rows = self._rows
        if rows.replaced > len(rows.roots):
            rows = Rows()
            add(rows, self._rows, {root: reading for root, reading in self._rows.roots.items() if root in self._used})
        return parts_of(rows)


class _Keeper:
    """Adds what answers rest on to rows."""

    def __init__(self, rows: Rows, queries: Queries, digests: FactDigests) -> None:
        self._rows = rows
        self._queries = queries
        self._digests = digests
        self._facts: dict[int, int] = {}
        self._fact_sets: dict[bytes, int] = {}
        self._questions: dict[int, int] = {}
        self._first = len(rows.questions)

    def fact_set(self, facts: bytes) -> int:
        """`facts` as 4 bytes each."""
        if facts not in self._fact_sets:
            numbers = {self._fact(fact) for fact in array("I", facts)}
            self._fact_sets[facts] = self._rows.fact_sets.number(tuple(sorted(numbers)))
        return self._fact_sets[facts]

    def questions(self, asked: Iterable[int]) -> tuple[int, ...]:
        """The numbers that these get, and all that they asked."""
        waiting = [*asked]
        while waiting:
            question = waiting.pop()
            if question not in self._questions:
                self._questions[question] = self._first + len(self._questions)
                waiting += self._queries.asked(question)
        return tuple([self._questions[question] for question in asked])

    def close(self) -> None:
        """Write the questions that were met."""
        assert len(self._rows.questions) == self._first
        numbers = self._questions
        self._rows.questions += [
            (self.fact_set(self._queries.facts(question)), *[numbers[other] for other in self._queries.asked(question)])
            for question in numbers
        ]

    def _fact(self, number: int) -> int:
        if number not in self._facts:
            fact = self._digests.lasting(number)
            text = encoded((fact, self._digests.of(fact)), self._rows.strings)
            self._facts[number] = self._rows.facts.number(text)
        return self._facts[number]


def _resting_on(rows: Rows, facts: Set[int]) -> set[str]:
    """The roots whose readings rest on any of these."""
    if not facts:
        return set()
    changed_sets = {number for number, row in enumerate(rows.fact_sets.rows) if not facts.isdisjoint(row)}
    users: list[list[int]] = [[] for _ in rows.questions]
    waiting: list[int] = []
    for number, (used, *asked) in enumerate(rows.questions):
        for question in asked:
            users[question].append(number)
        if used in changed_sets:
            waiting.append(number)
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
