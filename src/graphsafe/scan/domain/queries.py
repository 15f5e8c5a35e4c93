"""Answers that are worked out once, and are the same in whatever order the questions come.

An answer may need others. Where it needs itself (recursion), the inner question gets a provisional answer, and what was
worked out from that holds only while the outer question is being answered, the head of this cycle. All questions of a
cycle are one strongly connected component of what asks what, as it is met from that head. So the answer to each
question is the one that a fresh start with this question gives. An answer that rests on a cycle is therefore not used
while another part of that cycle is being answered: there it is worked out again.

When some answers have changed, all that rest on them are in doubt. A question whose answer is in doubt first asks again
what it asked before; if all of that is as it was, so is its answer.

What answers rest on is also kept for later scans: other questions, and the facts that were used meanwhile.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

from graphsafe.scan.domain.uses import Uses

Answer = TypeVar("Answer")
_MISSING: Any = object()
_NOTHING: frozenset[int] = frozenset()


class _Activation:
    """A question that is being answered."""

    __slots__ = ("asked", "cycles", "facts", "head", "layer", "number", "owned", "position")

    def __init__(self, number: int, position: int, layer: int) -> None:
        self.number = number
        self.layer = layer
        self.position = position
        self.facts: set[int] = set()
        "What it used, at any time."
        self.start()

    def start(self) -> None:
        """As if nothing had been asked yet."""
        self.head = self.position
        "The outermost question on the stack whose provisional answer was used."
        self.asked: set[int] = set()
        self.owned: list[int] = []
        "Questions with answers that hold only while a head is being answered."
        self.cycles: set[int] = set()


class _Doubt:
    """An answer that may be another one now."""

    __slots__ = ("answer", "asked", "cycles")

    def __init__(self, answer: Any, asked: tuple[int, ...] | None, cycles: frozenset[int]) -> None:
        self.answer = answer
        self.asked = asked
        "What it rests on; None where that is known to have changed, or is not kept."
        self.cycles = cycles


class Rests:
    """What an answer rests on: questions, by number, and facts."""

    def __init__(self) -> None:
        self.asked: set[int] = set()
        self.facts: set[int] = set()


class Queries:
    def __init__(self, uses: Uses | None = None) -> None:
        self._uses = uses or Uses()
        self.rests = Rests()
        "Of what asks, and is no question itself."
        self._facts: list[bytes] = []
        "Question -> the facts that were used for its answers, those before an invalidation included, as 4 bytes each."
        self._fact_sets: dict[bytes, bytes] = {b"": b""}
        "Each set of facts once: many answers use the same."
        self._asked_before: dict[int, tuple[int, ...]] = {}
        "Question -> what it asked for an answer that has been in doubt."
        self._numbers: dict[Hashable, int] = {}
        self._answers: list[Any] = []
        "Question -> answer; _MISSING where there is none."
        self._provisional: dict[int, tuple[Any, int]] = {}
        "Question -> answer, and the position of its head."
        self._stack: list[_Activation] = []
        self._active: dict[int, int] = {}
        "Question -> position on the stack."
        self._asked: list[tuple[int, ...] | None] = []
        "Question -> those that its answer rests on."
        self._settled = array("I")
        "Questions in the order in which they got their answers."
        self._cycles: dict[int, frozenset[int]] = {}
        "Question -> the cycles that its answer rests on."
        self._cycle_sets: dict[frozenset[int], frozenset[int]] = {}
        "Each set of cycles once: many answers rest on the same."
        self._members: dict[int, array[int]] = {}
        "Question -> the cycles that it is part of: of some there are hundreds."
        self._open_cycles: dict[int, int] = {}
        "Ring -> how many of its members are being answered."
        self._cycle_count = 0
        self._heads: set[int] = set()
        "Questions whose answers rest on provisional ones, that held only for them."
        self._doubts: dict[int, _Doubt] = {}
        self._changed: set[int] = set()
        "Questions whose answers have turned out to be others, or are not settled yet."
        self._keys: list[Hashable] = []
        "By number, where answers are in doubt."
        self._ask_again: Callable[[Hashable], bool] = lambda key: False
        self._is_same: Callable[[Any, Any], bool] = lambda old, new: False

    def __len__(self) -> int:
        """How many questions were asked."""
        return len(self._asked)

    @property
    def depth(self) -> int:
        """How many questions are being answered."""
        return len(self._stack)

    def ask(
        self, key: Hashable, work: Callable[[], Answer], provisional: Callable[[], Answer], layer: int = 0
    ) -> Answer:
        """The answer of `work`, or while that runs `provisional`. Raises TypeError for a key without a hash.

        A question asks only questions of its own layer and of lower ones, so that no cycle goes through two.
        """
        return self.answer(self.number(key), work, provisional, layer)

    def number(self, key: Hashable) -> int:
        """The number of a question. Raises TypeError for a key without a hash."""
        number = self._numbers.setdefault(key, len(self._facts))
        if number == len(self._facts):
            self._facts.append(b"")
            self._answers.append(_MISSING)
            self._asked.append(None)
        return number

    def answer(self, number: int, work: Callable[[], Answer], provisional: Callable[[], Answer], layer: int) -> Answer:
        """As `ask`, for the question of a number."""
        answer = self._answers[number]
        if answer is not _MISSING:
            cycles = self._cycles.get(number, _NOTHING)
            if not cycles or self._open_cycles.keys().isdisjoint(cycles):
                if self._stack:
                    top = self._stack[-1]
                    top.asked.add(number)
                    if cycles and top.layer == layer:
                        top.cycles |= cycles
                else:
                    self.rests.asked.add(number)
                return answer  # type: ignore[no-any-return]
        if number in self._active:
            self._rest_on(self._active[number])
            return provisional()
        if number in self._provisional:
            answer, head = self._provisional[number]
            self._rest_on(head)
            return answer  # type: ignore[no-any-return]
        return self._work_out(number, work, layer)

    def watch(self, work: Callable[[], Answer]) -> tuple[Answer, Rests]:
        """The answer of `work`, which is no question, and what it rests on."""
        before, facts = self.rests, self._uses.now
        self.rests = rests = Rests()
        self._uses.now = rests.facts
        try:
            return work(), rests
        finally:
            self.rests, self._uses.now = before, facts

    def asked(self, number: int) -> Sequence[int]:
        """The questions that the answer to a question rests on, or has rested on."""
        return (*(self._asked[number] or ()), *self._asked_before.get(number, ()))

    def facts(self, number: int) -> bytes:
        """The facts that it used, as 4 bytes each."""
        return self._facts[number]

    def rest_on_all(self) -> None:
        """What is being answered rests on how it was reached: it holds only for the outermost question."""
        self._rest_on(0)

    def _rest_on(self, position: int) -> None:
        if self._stack and position < self._stack[-1].head:
            self._stack[-1].head = position

    def _work_out(self, number: int, work: Callable[[], Answer], layer: int) -> Answer:
        position = len(self._stack)
        activation = _Activation(number, position, layer)
        self._stack.append(activation)
        self._active[number] = position
        cycles = self._members.get(number, ())
        for cycle in cycles:
            self._open_cycles[cycle] = self._open_cycles.get(cycle, 0) + 1
        outer, self._uses.now = self._uses.now, activation.facts
        answer: Answer
        doubt = self._doubts.pop(number, None)
        if doubt is not None:
            self._changed.add(number)
        try:
            if doubt is not None and doubt.asked is not None and self._hold(doubt.asked):
                answer = doubt.answer
                activation.asked.update(doubt.asked)
                activation.cycles |= doubt.cycles
            else:
                self._forget(activation.owned)
                activation.start()
                answer = work()
        except BaseException:
            self._forget(activation.owned)
            if len(self._stack) > 1:
                # Whoever handles the exception rests on what led to it.
                self._stack[-2].asked |= activation.asked
            outer |= activation.facts
            if doubt is not None:
                self._has_asked(number, doubt.asked or ())
            raise
        finally:
            self._uses.now = outer
            self._stack.pop()
            del self._active[number]
            for cycle in cycles:
                self._open_cycles[cycle] -= 1
                if not self._open_cycles[cycle]:
                    del self._open_cycles[cycle]
        if doubt is not None and not activation.asked.issuperset(doubt.asked or ()):
            self._has_asked(number, doubt.asked or ())
        parent = self._stack[-1] if self._stack else None
        if activation.head >= position:
            if doubt is not None and (answer is doubt.answer or self._is_same(doubt.answer, answer)):
                answer = doubt.answer
                self._changed.discard(number)
            self._settle(activation, answer)
            if parent is not None:
                parent.asked.add(number)
                if parent.layer == layer:
                    parent.cycles |= activation.cycles
            else:
                self.rests.asked.add(number)
        elif parent is not None:
            self._hand_up(activation, answer, parent)
        return answer

    def _settle(self, activation: _Activation, answer: object) -> None:
        """The answer rests on nothing that is still being answered: it is the answer for good."""
        number = activation.number
        self._heads.discard(number)
        if activation.owned:
            self._heads.add(number)
            cycle = self._cycle_count
            self._cycle_count += 1
            for member in (number, *activation.owned):
                self._members.setdefault(member, array("I")).append(cycle)
            activation.cycles.add(cycle)
            self._forget(activation.owned)
        self._answers[number] = answer
        self._asked[number] = tuple(activation.asked)
        self._settled.append(number)
        if self._facts[number]:
            activation.facts.update(array("I", self._facts[number]))
        facts = array("I", sorted(activation.facts)).tobytes()
        self._facts[number] = self._fact_sets.setdefault(facts, facts)
        if activation.cycles:
            cycles = frozenset(activation.cycles)
            self._cycles[number] = self._cycle_sets.setdefault(cycles, cycles)

    def _hand_up(self, activation: _Activation, answer: object, parent: _Activation) -> None:
        head = activation.head
        for owned in activation.owned:
            self._provisional[owned] = (self._provisional[owned][0], head)
        self._provisional[activation.number] = (answer, head)
        parent.owned += activation.owned
        parent.owned.append(activation.number)
        parent.asked |= activation.asked
        parent.asked.add(activation.number)
        parent.facts |= activation.facts
        parent.cycles |= activation.cycles
        parent.head = min(parent.head, head)

    def _has_asked(self, number: int, asked: Iterable[int]) -> None:
        self._asked_before[number] = (*self._asked_before.get(number, ()), *asked)

    def _forget(self, owned: Iterable[int]) -> None:
        for number in owned:
            self._provisional.pop(number, None)

    def invalidate(
        self,
        changed: Callable[[Hashable], bool],
        ask_again: Callable[[Hashable], bool],
        is_same: Callable[[Any, Any], bool],
    ) -> None:
        """Doubt the answers to questions that are `changed`, and all that rest on them.

        `ask_again` asks the question of a key, where it can: it says whether it could. `is_same` tells of an old answer
        and a new one whether all that rests on the old one holds; the old one is kept then.
        """
        self._ask_again, self._is_same = ask_again, is_same
        self._keys = list(self._numbers)
        if not self._doubts:
            self._changed.clear()
        certain = {number for number, key in enumerate(self._keys) if changed(key)}
        self._changed |= certain
        doubted = set(certain)
        settled = [*reversed(dict.fromkeys(reversed(self._settled)))]
        # In the order in which they were settled: what an answer rests on comes before it.
        for number in settled:
            asked = self._asked[number] or ()
            if number in doubted or not doubted.isdisjoint(asked):
                doubted.add(number)
                self._asked[number] = None
                cycles = self._cycles.pop(number, _NOTHING)
                is_changed = number in certain or number in self._heads
                self._doubts[number] = _Doubt(self._answers[number], None if is_changed else asked, cycles)
                self._answers[number] = _MISSING
                if is_changed:
                    self._has_asked(number, asked)
        self._settled = array("I", (number for number in settled if number not in doubted))

    def forget_answers(self) -> None:
        """Nothing is asked any more. What the answers rested on is still known."""
        for number, doubt in self._doubts.items():
            self._asked[number] = doubt.asked or ()
        self._answers.clear()
        for table in (self._doubts, self._cycles, self._cycle_sets, self._members, self._numbers):
            table.clear()
        self._keys.clear()

    def _hold(self, asked: Iterable[int]) -> bool:
        """Whether all of these have the answers that they had."""
        for number in asked:
            if number in self._doubts and not self._ask_again(self._keys[number]):
                return False
            if number in self._changed:
                return False
        return True
