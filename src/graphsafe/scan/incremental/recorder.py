"""Keeps what each reading of a function asked of the rest of the scan, and what it was told."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from graphsafe.scan.domain.arguments import Call
from graphsafe.scan.domain.values import Value
from graphsafe.scan.incremental.journal import (
    QUERIES,
    STABLE,
    EffectKind,
    Held,
    Journal,
    MarkKind,
    QueryKind,
    Way,
    header,
    outermost,
    question_of,
    use_item,
)
from graphsafe.scan.incremental.passage import Gathering, passage_text, row_names, row_texts
from graphsafe.scan.incremental.reading import Reading, items_text, reading_text, row_text
from graphsafe.scan.incremental.spool import Spool
from graphsafe.scan.incremental.value_table import NOTHING, Unwritable, ValueTable
from graphsafe.scan.interpreter.memo import MISSING, Missing
from graphsafe.scan.symbols.project import Project

if TYPE_CHECKING:
    from graphsafe.scan.domain.state_log import StateLog, Use
    from graphsafe.scan.interpreter.driver import Step


class _Reading:
    """One that is going on, or the work on an answer: its items so far, each a list as JSON will have it."""

    __slots__ = ("asked", "call", "clock", "is_first", "items", "key", "parent", "question", "serial")

    def __init__(
        self, call: Call | None, question: int = NOTHING, serial: int = 0, clock: float = 0, parent: int = 0
    ) -> None:
        self.call = call
        "None: what is noted belongs to an answer."
        self.question = question
        "The number of what the call asks, NOTHING where that cannot be written."
        self.serial = serial
        self.clock = clock
        self.parent = parent
        "The serial of the reading around it."
        self.items: list[list[Any]] = []
        self.asked: list[tuple[str, int]] = []
        "Of each query, whose attribute it was, and when it was answered."
        self.key = ""
        "Of the query that is answered."
        self.is_first = False
        "Whether nobody has asked it before."


class Recorder(Journal):
    """Keeps everything, function by function."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.table = ValueTable()
        self._stack: list[_Reading] = []
        self._readings: dict[str, list[tuple[int, int]]] = {}
        "Function -> where its readings are put aside."
        self._spool = Spool()
        self._headers: dict[str, str] = {}
        self._closed: set[str] = set()
        "Functions that cannot be read again by themselves."
        self._queries: dict[str, tuple[int, int, int]] = {}
        "Query -> when it was asked first, when it was last answered to a function, and the answer."
        self._changes: dict[str, int] = {}
        "Class -> when its attributes changed last."
        self._steps: list[list[Any]] = []
        self._step = self._gathering = Gathering(self.table)
        "Of the step that is going on, and of the passage within it, if there is one."
        self._reads_outside = False
        "Whether the step follows code of no function."
        self._parameters: dict[str, Sequence[str]] = {}
        self._passages: list[tuple[int, int]] = []
        "Where they are put aside."
        self._is_complete = True
        "Whether everything could be written down: else the scan cannot be gone through again."
        self._serial = 0
        self._runs: list[tuple[int, int, int]] = []
        "For each call that is going on: its question, how many readings had begun before, how many uses there were."
        self._begun = 0

    def rows(self) -> Iterator[tuple[str, str]]:
        """Each function, with all of its readings. Raises OSError."""
        for ref, readings in self._readings.items():
            yield ref, row_text(self._headers[ref], ref in self._closed, map(self._spool.get, readings))

    def circumstances(self) -> str:
        """What was asked and what changed in the scan as a whole."""
        return json.dumps((self._queries, self._changes), separators=(",", ":"))

    def course(self) -> str:
        """Where readings began, and what is known of all; empty if the scan cannot be gone through again."""
        self._end_step()
        course = (self._steps, self._parameters, sorted(self._closed), len(self._passages))
        return json.dumps(course, separators=(",", ":")) if self._is_complete else ""

    def passages(self) -> Iterator[tuple[str, str]]:
        """What there is to be gone through. Raises OSError."""
        return zip(row_names(len(self._passages)), row_texts(map(self._spool.get, self._passages)), strict=True)

    def step(self, step: Step) -> None:
        """Readings begin, or may."""
        self._end_step()
        self._steps.append([step.kind, self.table.name(step.ref), step.why, self._number(step.receiver)])
        self._reads_outside = step.reads_outside

    def _end_step(self) -> None:
        if self._steps:
            self._steps[-1].append(self._step.keys if self._reads_outside else [])
        self._step = self._gathering = Gathering(self.table)

    def begin(self, call: Call, node: ast.FunctionDef | ast.AsyncFunctionDef, clock: float) -> None:
        if call.ref not in self._headers:
            self._headers[call.ref] = header(self._project, call.ref, node)
        self._begun += 1
        self._serial += 1
        parent = next((frame.serial for frame in reversed(self._stack) if frame.call is not None), 0)
        self._stack.append(_Reading(call, self._runs[-1][0], self._serial, clock, parent))
        if not parent:
            self._gathering = Gathering(self.table)

    def end(self, result: Value, clock: float) -> None:
        reading = self._stack.pop()
        call = reading.call
        assert call is not None
        self._serial += 1
        asked = iter(reading.asked)
        for item in reading.items:
            if item[0] in QUERIES:
                owner, answered = next(asked)
                item[STABLE] = int(self._changes.get(owner, 0) < answered)
        question = reading.question
        try:
            if question == NOTHING:
                raise Unwritable
            answer = self.table.any_number(result)
            times = (reading.serial, self._serial, reading.clock, clock, reading.parent)
            made = Reading(question, list(call.arguments.keywords), answer, *times, items_text(reading.items))
            place = self._spool.put(reading_text(made))
            self._gather(made)
        except (Unwritable, OSError):
            self._closed.add(call.ref)
            self._is_complete = False
            return
        if self.table.is_opaque(question) or self.table.is_opaque(answer):
            self._closed.add(call.ref)
        self._readings.setdefault(call.ref, []).append(place)

    def _gather(self, made: Reading) -> None:
        """Raises OSError."""
        self._gathering.read(made.serial, made.question, made.result)
        if not made.parent:
            passage = self._gathering.passage(made.serial, made.until)
            self._passages.append(self._spool.put(passage_text(passage)))
            self._gathering = self._step

    def fail(self) -> None:
        self._closed.update(reading.call.ref for reading in self._stack if reading.call is not None)
        self._is_complete = False
        self._stack.clear()
        self._runs.clear()

    def call(self, call: Call, uses: int) -> Value | None:
        try:
            question = question_of(call, self.table)
        except Unwritable:
            question = NOTHING
        self._runs.append((question, self._begun, uses))
        return None

    def called(self, call: Call, result: Value, way: Way, state: StateLog) -> None:
        question, begun, uses = self._runs.pop()
        self._gathering.call(call.ref)
        if not self._stack:
            return
        if question == NOTHING:
            self._close(True)
            self._is_complete = False
            return
        answer = self._number(result)
        self._close(self.table.is_opaque(question))
        ran = int(begun < self._begun)
        self._stack[-1].items.append(["call", question, answer, state.clock, ran, way, len(state.uses) - uses])

    def ask(self, kind: QueryKind, owner: str, name: str) -> Value | Missing | None:
        work = _Reading(None)
        work.key = f"{kind} {self.table.name(owner)} {self.table.name(name)}"
        work.is_first = work.key not in self._queries
        self._stack.append(work)
        return MISSING

    def tell(self, kind: QueryKind, owner: str, name: str, value: Value | None, held: Held) -> None:
        work = self._stack.pop()
        self._serial += 1
        table = self.table
        owners, names = table.name(owner), table.name(name)
        known = self._queries.get(work.key)
        answer = self._number(value)
        self._gathering.ask(kind, owners, names, answer, work.is_first)
        if self._stack:
            seen = map(self._any_number, held)
            self._stack[-1].items.append([kind, owners, names, answer, int(work.is_first), 0, work.items or 0, *seen])
        if not self._stack or self._stack[-1].call is None:
            if known is None:
                self._queries[work.key] = self._serial, 0, NOTHING
            return
        self._stack[-1].asked.append((owner, self._serial))
        self._queries[work.key] = known[0] if known is not None else self._serial, self._serial, answer

    def mark(self, kind: MarkKind, key: str, first: bool) -> None:
        name = self.table.name(key)
        self._note([kind, name, int(first)])
        self._gathering.mark(kind, name, first)

    def effect(self, kind: EffectKind, owner: str, name: str, value: Value | None) -> bool:
        table = self.table
        item = [kind, table.name(owner), table.name(name), self._number(value)]
        self._note(item)
        if kind != "record" and kind != "expect":
            self._gathering.effect(item)
        return False

    def recorded(self, owner: str, name: str, before: Held, after: Held) -> None:
        numbers = [*map(self._any_number, (*before, *after))]
        if self._stack:
            self._stack[-1].items[-1] += numbers
        self._gathering.hold(self.table.name(owner), self.table.name(name), *numbers[2:])

    def expected(self, owner: str, name: str, held: Held) -> None:
        now, expected = map(self._any_number, held)
        self._gathering.expect(self.table.name(owner), self.table.name(name), now, expected)

    def changed(self, owner: str) -> None:
        self._serial += 1
        self._changes[owner] = self._serial

    def constructing(self, ref: str) -> None:
        self._note(["construct", self.table.name(ref)])
        self._gathering.finish(ref)

    def constructed(self) -> None:
        self._note(["constructed"])

    def needs(self, ref: str, method: str, is_done: bool) -> None:
        if self._stack and (not is_done or self._stack[-1].is_first):
            self._note(["needs", self.table.name(ref), self.table.name(method), int(is_done)])
        if not is_done:
            self._gathering.finish(ref, method)

    def named(self, ref: str, parameters: Sequence[str]) -> None:
        self._parameters[ref] = parameters

    def nested(self, ref: str, closure: int) -> None:
        current = self._stack[-1].call if self._stack else None
        owner = outermost(self._project, ref)
        if current is None or current.ref != owner:
            # Its lines are read inside another function's reading.
            self._closed.add(owner)
            self._close(True)

    def use(self, use: Use, is_new: bool) -> bool:
        item = use_item(use, is_new, self.table)
        self._note(item)
        self._gathering.use(item, is_new)
        return False

    def grown(self, uses: Sequence[Use]) -> bool:
        if uses:
            self._note(["grown"])
            current = self._stack[-1].call if self._stack else None
            users = {outermost(self._project, f"{use.path}::{use.function}") for use in uses}
            if current is not None and users != {current.ref}:
                # Those of a function that the condition calls: the caller decides about them.
                self._closed.add(current.ref)
        return bool(uses)

    def forget(self, uses: int) -> bool:
        self._note(["forget", uses])
        self._gathering.forget(uses)
        return False

    def _note(self, item: list[Any]) -> None:
        if self._stack:
            self._stack[-1].items.append(item)

    def _number(self, value: Value | None) -> int:
        number = self._any_number(value)
        self._close(self.table.is_opaque(number))
        return number

    def _any_number(self, value: Value | None) -> int:
        try:
            return self.table.any_number(value)
        except Unwritable:
            self._is_complete = False
            self._close(True)
            return NOTHING

    def _close(self, is_strange: bool) -> None:
        """What is being read cannot be read again by itself: it is told of, or tells, what cannot be written."""
        current = self._stack[-1].call if is_strange and self._stack else None
        if current is not None:
            self._closed.add(current.ref)
