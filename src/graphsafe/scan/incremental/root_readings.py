"""What earlier scans still answer of single roots, and what this scan leaves to later ones.

A root is read anew if any fact has changed that its reading rests on, through however many questions. For all others
the summaries of the last time hold. They are put together as those that are read anew (linting/gather.py).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from graphsafe.scan.domain.queries import Queries, Rests
from graphsafe.scan.domain.summary import Field, Summary
from graphsafe.scan.domain.uses import Fact
from graphsafe.scan.domain.values import Value
from graphsafe.scan.incremental.encoding import Unkept
from graphsafe.scan.incremental.fact_digests import FactDigests
from graphsafe.scan.incremental.rows import (
    NO_ROWS,
    UNKNOWN,
    QuestionNumbers,
    RootReading,
    Rows,
    add,
    live_facts,
    parts_of,
    resting_on,
    rows_of,
)
from graphsafe.scan.incremental.summary_rows import SummaryReader, SummaryWriter
from graphsafe.scan.incremental.tables import Facts, parse_facts

ENOUGH = 0.5
"If fewer of the roots are known, hardly anything is gained."


class RootReadings:
    """Roots have names, which the driver gives them."""

    def __init__(self, facts: Facts, parts: Sequence[str], changed: Iterable[Fact], digests: FactDigests) -> None:
        """`parts` is what an earlier scan has left, as `parts()` gives it but for the facts, or anything else.

        `changed`: those of the facts that say something else now.
        """
        self._digests = digests
        self._rows = Rows()
        self._unknown: set[str] = set()
        "Roots whose readings no longer hold."
        self._first: dict[str, int] = {}
        self._second: dict[str, int] = {}
        "Root that was read anew -> its summary of the first round, and of the second."
        self._unkept: set[str] = set()
        self._used: dict[str, None] = {}
        "The roots of this scan."
        with suppress(*NO_ROWS):
            rows = rows_of(facts, parts)
            unknown = resting_on(rows, facts.forget(changed))
            if len(unknown) <= len(rows.roots) * (1 - ENOUGH):
                self._rows, self._unknown = rows, unknown
                rows.rests.clear()
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
        facts = self._rows.facts
        self._unknown |= resting_on(self._rows, facts.forget(self._digests.changed_constructions(facts)))

    def second(self, root: str, told: str) -> Summary | None:
        """The same in the second round, which knows `told` of the root's parameters."""
        reading = self._known(root)
        return self._summary(root, reading.second) if reading is not None and reading.told == told else None

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

    def keep_rests(self, read: Mapping[str, tuple[Rests, str]], rest: Rests, queries: Queries) -> None:
        """What that rests on which was read anew, in both rounds, and what the second knew of a root's parameters.

        `rest`: the same of what is done in every scan.
        """
        rows = self._rows
        earlier: dict[str, tuple[int, ...]] = {}
        for root in read:
            before = rows.roots.get(root)
            if before is not None and root not in self._first:
                # Only the second round was read anew: what the first one rested on counts as well.
                self._first[root] = before.first
                rows.used.append(before.facts)
                earlier[root] = (rows.asked.append(before.questions),)
        keeper = _Keeper(rows, queries, self._digests)
        for root, (rests, told) in read.items():
            rows.replaced += rows.roots.pop(root, None) is not None
            if root in self._unkept:
                # Whatever it used, the report rests on that.
                rest.facts |= rests.facts
                rest.asked |= rests.asked
                continue
            questions = (*earlier.get(root, ()), *keeper.questions.of(rests.asked))
            first = self._first.get(root, -1)
            facts = keeper.fact_set(rests.facts)
            rows.roots[root] = RootReading(facts, questions, first, told, self._second.get(root, -1))
            self._used[root] = None
        rows.rests.append((keeper.fact_set(rest.facts), keeper.questions.of(rest.asked)))
        keeper.close()

    def keep_facts(self, facts: Iterable[int]) -> None:
        """What was used since then."""
        keeper = _Keeper(self._rows, Queries(), self._digests)
        self._rows.rests.append((keeper.fact_set(facts), ()))

    def add(self, parts: Sequence[str]) -> None:
        """What another process has left."""
        facts, *others = parts
        rows = rows_of(parse_facts(facts), others)
        add(self._rows, rows, rows.roots)
        self._used.update(dict.fromkeys(rows.roots))

    def parts(self) -> Iterator[str]:
        """What this scan leaves, as text: facts, then the other parts."""
        rows = self._rows
        rows.roots = {root: reading for root, reading in rows.roots.items() if root in self._used}
        if rows.replaced > len(rows.roots):
            rows = Rows()
            add(rows, self._rows, self._rows.roots)
        yield rows.facts.text(live_facts(rows))
        yield from parts_of(rows)


class _Keeper:
    """Adds what answers rest on to rows."""

    def __init__(self, rows: Rows, queries: Queries, digests: FactDigests) -> None:
        self._rows = rows
        self._queries = queries
        self._digests = digests
        self._facts = array("i", [UNKNOWN]) * digests.fact_count
        self._fact_sets: dict[bytes, int] = {}
        self.questions = QuestionNumbers(len(queries), len(rows.asked), queries.asked)

    def fact_set(self, facts: Iterable[int]) -> int:
        return self._fact_set(array("I", sorted(facts)).tobytes())

    def _fact_set(self, facts: bytes) -> int:
        """`facts` as 4 bytes each."""
        number = self._fact_sets.get(facts)
        if number is None:
            numbers = sorted({self._fact(fact) for fact in array("I", facts)})
            number = self._fact_sets[facts] = self._rows.fact_sets.append(numbers)
        return number

    def close(self) -> None:
        """Write the questions that were met."""
        assert len(self._rows.asked) == self.questions.first
        for question in self.questions.met:
            self._rows.used.append(self._fact_set(self._queries.facts(question)))
            self._rows.asked.append(self.questions.of(self._queries.asked(question)))

    def _fact(self, number: int) -> int:
        if self._facts[number] == UNKNOWN:
            self._facts[number] = self._rows.facts.number(self._digests.lasting(number), self._digests.of)
        return self._facts[number]
