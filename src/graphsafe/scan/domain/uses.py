"""What answers use of the project's files: facts, each of which an edit may change."""

from __future__ import annotations

from collections.abc import Callable, Hashable, MutableMapping
from typing import Any, TypeVar

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")
Fact = tuple[str | int, ...]
"""One of these:

    ("file", path)                  its name as a module, and that it can be read
    ("function", path, name)        what stands around a function's text: decorators, class, marks
    ("class", path, name)           the bases and decorators of a class, its methods and fields, and who assigns what
    ("classes", path)               the names of a file's classes
    ("imports", path)               what a file imports
    ("statement", path, name)       the text of the statements that bind a name at module level or in a class
    ("lines", path, first, last)    the text of a statement
    ("name", path, name)            what a global name means in a file
    ("bases", path, class)          the order of a class's bases, and the facts about each that is in the project
    ("text", path)                  all that a file holds
    ("words", path)                 whether the words are in a file that are looked for in every scan
    ("overview", path)              what else decides which roots a file holds, and what is said about lines of it
    ("search", path, pattern, flags)  what a pattern finds in a file
    ("module", name)                which files a dotted name means; none counts as well
    ("package", name)               whether a package of this name is in the project
    ("subclasses", name)            the classes written with a base of this name
    ("operator", name)              the function registered for an operator
    ("default-device", path)        whether tensors without `device=` may be made on a device there
    ("constructions", class)        what calls of a class put into its fields, known when all roots have been read
"""
Memo = MutableMapping[Key, tuple[Answer, frozenset[int]]]
"Answers, each with the facts that it used."


class Uses:
    """Where facts are noted, by number: in the set of whoever is at work."""

    def __init__(self) -> None:
        self.is_kept = True
        "Whether a later scan will ask what was used. If not, all facts are one: they take a tenth of the memory."
        self.now: set[int] = set()
        self.facts: list[Fact] = []
        self._numbers: dict[Fact, int] = {}
        self._at_work: dict[tuple[int, Hashable], None] = {}
        "Memos and keys whose answers are being worked out."
        self._made: list[tuple[Memo[Any, Any], Any]] = []
        "Memos and keys of the answers that were worked out since the first of these began."
        self._is_cyclic = False

    def number(self, fact: Fact) -> int:
        if not self.is_kept:
            return 0
        number = self._numbers.get(fact)
        if number is None:
            number = self._numbers[fact] = len(self.facts)
            self.facts.append(fact)
        return number

    def note(self, *fact: str | int) -> None:
        self.now.add(self.number(fact))

    def aside(self, work: Callable[[], Answer]) -> Answer:
        """The answer of `work`; what it uses is not noted, since the answer itself is a fact, or a table of facts."""
        outer, self.now = self.now, set()
        try:
            return work()
        finally:
            self.now = outer

    def memo(self, known: Memo[Key, Answer], key: Key, work: Callable[[], Answer], provisional: Answer) -> Answer:
        """The answer of `work`, kept in `known`; whoever asks again uses the same facts.

        Every memo of answers about the project is one of these, a fact, or a question (queries.py). `provisional` is
        the answer for `work` itself.
        """
        if key not in known:
            self._work_out(known, key, work, provisional)
        elif self._at_work and (id(known), key) in self._at_work:
            self._is_cyclic = True
        answer, facts = known[key]
        self.now.update(facts)
        return answer

    def _work_out(self, known: Memo[Key, Answer], key: Key, work: Callable[[], Answer], provisional: Answer) -> None:
        known[key] = provisional, frozenset()
        self._at_work[id(known), key] = None
        outer, self.now = self.now, set()
        try:
            answer = work()
        except BaseException:
            del known[key]
            raise
        finally:
            used, self.now = self.now, outer
            del self._at_work[id(known), key]
        known[key] = answer, frozenset(used)
        self._made.append((known, key))
        if not self._at_work:
            if self._is_cyclic:
                # All that were worked out from a provisional answer use what the others use.
                for memo, made in self._made:
                    memo[made] = memo[made][0], memo[made][1] | used
            self._made.clear()
            self._is_cyclic = False
