"""Passages of the scan before that are done at once: those in which nothing is other than it was.

What others, which are gone through or made, have done is compared with what they did then: keys of what is other now.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import islice

from graphsafe.scan.incremental.deeds import Deeds
from graphsafe.scan.incremental.footprint import Edit
from graphsafe.scan.incremental.journal import parts_of
from graphsafe.scan.incremental.passage import READING, Passage, held, key_of, keys_of_attribute, pairs, rows
from graphsafe.scan.incremental.trace import Trace
from graphsafe.scan.incremental.value_table import NOTHING
from graphsafe.scan.interpreter.driver import Step
from graphsafe.scan.interpreter.engine import Engine

NO_PASSAGE = Passage(0, 0, (), (), (), (), (), (), (), (), (), (), ())


class Passing:
    def __init__(self, engine: Engine, trace: Trace, deeds: Deeds, edit: Edit) -> None:
        self._engine = engine
        self._state = engine.state
        self._table = trace.table
        self._text = cache(trace.table.text)
        self._deeds = deeds
        self._reads = trace.record.state.reads
        self._passages = trace.passages
        self._serials = [passage.serial for passage in trace.passages]
        self._places = {passage.question: place for place, passage in enumerate(trace.passages)}
        self._next = 0
        "Passages before this one have had their turn."
        self._passed: set[int] = set()
        name = trace.table.name
        self._other = {key_of("bound", name(path), name(bound)) for path, bound in edit.bindings}
        "Keys of what is other than it was then."
        self._rewritten = frozenset(edit.rewritten)
        self._around: Sequence[int] = ()
        "What the step that is taken depends on."
        self._may_pass = True
        self.made: dict[int, int] = {}
        "Question -> result: the readings since `begin`."
        self._done: set[tuple[str, str]] = set()
        self._uses = self._seen = 0

    @contextmanager
    def step(self, step: Step) -> Iterator[None]:
        """What it does outside readings is done again; if that is something else, all that follows is gone through."""
        self._around = step.keys
        if step.reads_outside and step.ref in self._rewritten:
            self._may_pass = False
        yield
        self._may_pass = self._may_pass and self._other.isdisjoint(self._around)

    def has_passed(self, serial: int) -> bool:
        """Whether a reading was within a passage that was done at once."""
        return bisect_right(self._serials, serial) - 1 in self._passed

    def left(self) -> Iterable[Passage]:
        """Those that were not."""
        return (passage for place, passage in enumerate(self._passages) if place not in self._passed)

    def turn(self, question: int) -> Passage | None:
        """The passage that this question begins, if it comes in its turn."""
        place = self._places.get(question, -1)
        if place < self._next:
            return None
        for passage in self._passages[self._next : place]:
            self._other.update(passage.keys)
        self._next = place + 1
        return self._passages[place]

    def is_as_it_was(self, passage: Passage, live: set[int]) -> bool:
        """Whether it does what it did. `live`: functions that do something else now, in numbers of the table."""
        self._may_pass = self._may_pass and self._other.isdisjoint(self._around)
        return self._may_pass and self._other.isdisjoint(passage.keys) and live.isdisjoint(passage.functions)

    def do(self, passage: Passage) -> None:
        """All that it did."""
        self._passed.add(self._next - 1)
        state, deeds, text = self._state, self._deeds, self._text
        self._engine.memo.know(
            (text(ref), hot, guarded, given, result)
            for _, _, result, ref, given, hot, guarded in rows(passage.readings, READING)
        )
        deeds.know(passage)
        if passage.done:
            owners, methods = map(text, passage.done[0::2]), map(text, passage.done[1::2])
            self._engine.attributes.done.update(zip(owners, methods, strict=True))
        if passage.seen:
            state.reads.update((name, self._reads[name]) for name in map(text, passage.seen))
        for item in passage.uses:
            deeds.use(item)
        for item in passage.effects:
            deeds.do(item[0], item)
        state.clock = max(state.clock, passage.until)

    def begin(self) -> None:
        """A passage is gone through or made."""
        self.made.clear()
        self._deeds.held_before.clear()
        self._deeds.asked_first.clear()
        self._done = set(self._engine.attributes.done)
        self._uses, self._seen = len(self._state.uses), len(self._state.reads)

    def settle(self, passage: Passage | None) -> None:
        """What is other now than after the passage, which was gone through; None: there was no such passage."""
        if not self._may_pass:
            return
        was = passage or NO_PASSAGE
        other, name, state = self._other, self._table.name, self._state
        made = {(question, result) for _, question, result, *_ in rows(was.readings, READING)}
        for question, _ in made ^ {*self.made.items()}:
            other.add(key_of("read", parts_of(question, self._table).ref))
        self._settle_held(was)
        done = {(name(owner), name(method)) for owner, method in self._engine.attributes.done - self._done}
        other.update(key_of("done", owner) for owner, _ in done ^ {*pairs(was.done)})
        bound = dict(pairs(was.bound))
        asked = {(key, self._deeds.answered(key)) for key in self._deeds.asked_first}
        other.update(key for key, _ in asked ^ {(key, bound.get(key, NOTHING)) for key in was.asked})
        seen = {name(key) for key in islice(state.reads, self._seen, None)}
        other.update(key_of("seen", key) for key in seen.symmetric_difference(was.seen))
        used = {use.place for use in islice(state.uses.values(), self._uses, None)}
        used_then = {self._deeds.use_of(item).place for item in was.uses}
        other.update(key_of("use", name(key)) for key, _, _ in used ^ used_then)

    def _settle_held(self, was: Passage) -> None:
        before = self._deeds.held_before
        then = [dict(held(flat)) for flat in (was.now, was.initial, was.expected)]
        for pair in {*before, *then[0], *then[1], *then[2]}:
            holds = self._deeds.held(pair)
            at_first = before.get(pair, holds)
            held_then = tuple(numbers.get(pair, first) for numbers, first in zip(then, at_first, strict=True))
            if holds != held_then:
                self._other.update(keys_of_attribute(*pair))
