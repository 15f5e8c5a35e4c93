"""A cache of answers to questions. Each answer is computed once, and does not depend on the order of the questions.

The computation of an answer may ask further questions. If a question needs its own answer (recursion), the inner
question gets a provisional answer. The outer question is the head of this cycle. Results that are based on the
provisional answer are valid only while the head is being answered. The questions of a cycle are one strongly connected
component of the graph of questions, explored from the head. Each question gets the answer that it would get if it were
the first question. Therefore, while another question of the cycle is being answered, an answer that depends on the
cycle is not reused but computed again. When some answers change, all answers that depend on them become doubtful.
Before a doubtful answer is used, the questions on which it depends are asked again. If their answers are unchanged, the
doubtful answer is still right.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

from graphsafe.scan.domain.frozen import dataclass

Answer = TypeVar("Answer")
_MISSING: Any = object()
_NOTHING: frozenset[int] = frozenset()


class _Activation:
    """A question while it is being answered."""

    __slots__ = ("asked", "cycles", "head", "layer", "number", "owned", "position")

    def __init__(self, number: int, position: int, layer: int) -> None:
        self.number = number
        self.layer = layer
        self.position = position
        self.start()

    def start(self) -> None:
        """Reset to the state before this question asked any other question."""
        self.head = self.position
        "The position on the stack of the outermost question whose provisional answer was used."
        self.asked: set[int] = set()
        self.owned: list[int] = []
        "Questions whose answers are valid only while this question's head is being answered."
        self.cycles: set[int] = set()


@dataclass(frozen=True, slots=True)
class _Doubt:
    """An answer that may have changed."""

    answer: Any
    asked: tuple[int, ...] | None
    "The questions on which the answer depends, or None if one of their answers is known to have changed."
    cycles: frozenset[int]


class Queries:
    """The answers so far, and the questions that are being answered."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._answers: list[Any] = []
        "Question -> its answer, or _MISSING."
        self._provisional: dict[int, tuple[Any, int]] = {}
        "Question -> its provisional answer, and the position of its head on the stack."
        self._stack: list[_Activation] = []
        self._active: dict[int, int] = {}
        "Question -> position on the stack."
        self._asked: list[tuple[int, ...] | None] = []
        "Question -> the questions on which its answer depends."
        self._settled = array("I")
        "Questions in the order in which they got their answers."
        self._cycles: dict[int, frozenset[int]] = {}
        "Question -> the cycles on which its answer depends."
        self._cycle_sets: dict[frozenset[int], frozenset[int]] = {}
        "One shared object for each set of cycles, since many answers depend on the same set."
        self._members: dict[int, array[int]] = {}
        "Question -> the cycles that contain it; there may be hundreds."
        self._open_cycles: dict[int, int] = {}
        "Cycle -> the number of its members that are being answered."
        self._cycle_count = 0
        self._heads: set[int] = set()
        "Questions whose answers were computed from their own provisional answers."
        self._doubts: dict[int, _Doubt] = {}
        self._changed: set[int] = set()
        "Questions whose answers have changed or are not settled yet."
        self._keys: list[Hashable] = []
        "The keys of the questions by number. The list is filled when some answers have become doubtful."
        self._ask_again: Callable[[Hashable], bool] = lambda key: False
        self._is_same: Callable[[Any, Any], bool] = lambda old, new: False

    @property
    def depth(self) -> int:
        """The number of questions that are being answered."""
        return len(self._stack)

    def ask(
        self, key: Hashable, work: Callable[[], Answer], provisional: Callable[[], Answer], layer: int = 0
    ) -> Answer:
        """Return the answer that `work` computes. While `work` runs, the same question gets the answer of
        `provisional`.

        A question must ask only questions of its own layer and of lower layers. Then no cycle contains questions of two
        layers. Raises TypeError if the key is not hashable.
        """
        return self.answer(self.number(key), work, provisional, layer)

    def known(self, key: Hashable) -> int | None:
        """Return the number of a question, or None if it has not been asked before."""
        try:
            return self._numbers.get(key)
        except TypeError:
            return None

    def number(self, key: Hashable) -> int:
        """Return the number of a question; a new question gets one. Raises TypeError if the key is not hashable."""
        number = self._numbers.setdefault(key, len(self._answers))
        if number == len(self._answers):
            self._answers.append(_MISSING)
            self._asked.append(None)
        return number

    def answer(self, number: int, work: Callable[[], Answer], provisional: Callable[[], Answer], layer: int) -> Answer:
        """Answer the question with this number, as `ask` does."""
        answer = self._answers[number]
        if answer is not _MISSING:
            cycles = self._cycles.get(number, _NOTHING)
            if not cycles or self._open_cycles.keys().isdisjoint(cycles):
                if self._stack:
                    top = self._stack[-1]
                    top.asked.add(number)
                    if cycles and top.layer == layer:
                        top.cycles |= cycles
                return answer  # type: ignore[no-any-return]
        if number in self._active:
            self._rest_on(self._active[number])
            return provisional()
        if number in self._provisional:
            answer, head = self._provisional[number]
            self._rest_on(head)
            return answer  # type: ignore[no-any-return]
        return self._work_out(number, work, layer)

    def rest_on_all(self) -> None:
        """The answers that are being computed depend on the stack. Mark them as valid only until the outermost question
        is answered."""
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
                # If the calling question catches the exception, its answer depends on the questions that were asked
                # before the exception.
                self._stack[-2].asked |= activation.asked
            raise
        finally:
            self._stack.pop()
            del self._active[number]
            for cycle in cycles:
                self._open_cycles[cycle] -= 1
                if not self._open_cycles[cycle]:
                    del self._open_cycles[cycle]
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
        elif parent is not None:
            self._hand_up(activation, answer, parent)
        return answer

    def _settle(self, activation: _Activation, answer: object) -> None:
        """Keep an answer permanently, because it depends on no question that is still being answered."""
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
        parent.cycles |= activation.cycles
        parent.head = min(parent.head, head)

    def _forget(self, owned: Iterable[int]) -> None:
        for number in owned:
            self._provisional.pop(number, None)

    def invalidate(
        self,
        changed: Callable[[Hashable], bool],
        ask_again: Callable[[Hashable], bool],
        is_same: Callable[[Any, Any], bool],
    ) -> None:
        """Mark the answers to the `changed` questions as doubtful, together with all answers that depend on these.

        `ask_again` asks the question with a given key and returns True, or returns False if it cannot. `is_same` tells
        whether answers that depend on an old answer also hold with the new answer. If so, the old answer is kept.
        """
        self._ask_again, self._is_same = ask_again, is_same
        self._keys = list(self._numbers)
        if not self._doubts:
            self._changed.clear()
        certain = {number for number, key in enumerate(self._keys) if changed(key)}
        self._changed |= certain
        doubted = set(certain)
        settled = [*reversed(dict.fromkeys(reversed(self._settled)))]
        # An answer is settled after the answers on which it depends, and `settled` keeps this order.
        for number in settled:
            asked = self._asked[number] or ()
            if number in doubted or not doubted.isdisjoint(asked):
                doubted.add(number)
                self._asked[number] = None
                cycles = self._cycles.pop(number, _NOTHING)
                is_changed = number in certain or number in self._heads
                self._doubts[number] = _Doubt(self._answers[number], None if is_changed else asked, cycles)
                self._answers[number] = _MISSING
        self._settled = array("I", (number for number in settled if number not in doubted))

    def _hold(self, asked: Iterable[int]) -> bool:
        """Return whether all of these questions still have the same answers."""
        for number in asked:
            if number in self._doubts and not self._ask_again(self._keys[number]):
                return False
            if number in self._changed:
                return False
        return True
