"""What each reading of a function asked of the rest of the scan, and what it was told.

With these answers a function can be read again after an edit without what lies around it (rereading.py), as long as it
asks the same and returns the same. A reading that cannot be kept so makes its function one that cannot be read again.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar

from graphsafe.scan.arguments import Call
from graphsafe.scan.cache import digest
from graphsafe.scan.overrides import is_abstract
from graphsafe.scan.project import Project
from graphsafe.scan.source import Unreadable
from graphsafe.scan.spool import Spool
from graphsafe.scan.value_table import NOTHING, Unwritable, ValueTable
from graphsafe.scan.values import Value

if TYPE_CHECKING:
    from graphsafe.scan.state import Use

Answer = TypeVar("Answer", bound="Value | None")
QueryKind = Literal["attribute", "initial", "class", "bound"]
MarkKind = Literal["seen", "input"]
EffectKind = Literal["record", "expect", "later", "root", "passed"]


class _Missing:
    pass


MISSING: Final = _Missing()
"The answer is not known yet: it has to be worked out."


class Journal(Protocol):
    """What an engine tells of its readings: to be kept, or to be answered from what was kept."""

    def begin(self, call: Call, node: ast.FunctionDef | ast.AsyncFunctionDef, clock: float) -> None: ...

    def end(self, result: Value) -> None: ...

    def fail(self) -> None: ...

    def call(self, call: Call) -> Value | None:
        """The answer, or None: it has to be worked out, and `called` be told."""

    def called(self, call: Call, result: Value, clock: float) -> None: ...

    def ask(self, kind: QueryKind, owner: str, name: str) -> Value | _Missing | None:
        """The answer, or MISSING: it has to be worked out, and `tell` be told."""

    def tell(self, kind: QueryKind, owner: str, name: str, value: Value | None) -> None: ...

    def mark(self, kind: MarkKind, key: str, first: bool) -> None:
        """Something that counts once, however often it happens."""

    def effect(self, kind: EffectKind, owner: str, name: str, value: Value | None) -> None:
        """Something that others may see."""

    def changed(self, owner: str) -> None:
        """What is known of a class's attributes has changed."""

    def nested(self, ref: str) -> None:
        """A function defined inside another is called."""

    def decided(self, uses: Sequence[Use]) -> None:
        """A condition has used state of the host in these places, and decides whether they count."""


def answered(
    journal: Journal | None, kind: QueryKind, owner: str, name: str, work_out: Callable[[str, str], Answer]
) -> Answer:
    """The answer of `work_out` to a question, which the journal is told of or may know."""
    if journal is None:
        return work_out(owner, name)
    told = journal.ask(kind, owner, name)
    if told is MISSING:
        told = work_out(owner, name)
        journal.tell(kind, owner, name, told)
    return told  # type: ignore[return-value]  # what was told of such a question before is of the same kind


class _Reading:
    """One that is going on: its items so far, each a list as JSON will have it."""

    __slots__ = ("asked", "call", "clock", "items", "serial")

    def __init__(self, call: Call, serial: int, clock: float) -> None:
        self.call = call
        self.serial = serial
        self.clock = clock
        self.items: list[list[Any]] = []
        self.asked: list[tuple[str, int]] = []
        "Of each query, whose attribute it was, and when it was answered."


class Recorder:
    """Keeps everything, function by function."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.table = ValueTable()
        self._stack: list[_Reading | None] = []
        "None: what is asked now belongs to an answer."
        self._readings: dict[str, list[tuple[int, int]]] = {}
        "Function -> where its readings are put aside."
        self._spool = Spool()
        self._headers: dict[str, str] = {}
        self._closed: set[str] = set()
        "Functions that cannot be read again."
        self._queries: dict[str, tuple[int, int, int]] = {}
        "Query -> when it was asked first, when it was last answered to a function, and the answer."
        self._changes: dict[str, int] = {}
        "Class -> when its attributes changed last."
        self._serial = 0
        self._runs: list[int] = []
        "For each call that is going on, how many readings had begun before."
        self._begun = 0

    def rows(self) -> Iterator[tuple[str, str]]:
        """Each function that can be read again, with all of its readings. Raises OSError."""
        for ref, readings in self._readings.items():
            if ref not in self._closed:
                yield ref, f'["{self._headers[ref]}",[{",".join(map(self._spool.get, readings))}]]'

    def circumstances(self) -> str:
        """What was asked and what changed in the scan as a whole."""
        return json.dumps((self._queries, self._changes), separators=(",", ":"))

    def begin(self, call: Call, node: ast.FunctionDef | ast.AsyncFunctionDef, clock: float) -> None:
        if call.ref not in self._headers:
            self._headers[call.ref] = header(self._project, call.ref, node)
        self._begun += 1
        self._serial += 1
        self._stack.append(_Reading(call, self._serial, clock))

    def end(self, result: Value) -> None:
        reading = self._stack.pop()
        assert reading is not None
        call = reading.call
        self._serial += 1
        if call.ref in self._closed:
            return
        asked = iter(reading.asked)
        for item in reading.items:
            if item[0] in _QUERIES:
                owner, answered = next(asked)
                item.append(int(self._changes.get(owner, 0) < answered))
        try:
            question = question_of(call, self.table)
            order = list(call.arguments.keywords)
            kept = [question, order, self.table.number(result), reading.serial, self._serial, reading.clock]
            place = self._spool.put(json.dumps([*kept, reading.items], separators=(",", ":")))
        except (Unwritable, OSError):
            self._closed.add(call.ref)
            return
        self._readings.setdefault(call.ref, []).append(place)

    def fail(self) -> None:
        self._closed.update(reading.call.ref for reading in self._stack if reading is not None)
        self._stack.clear()
        self._runs.clear()

    def call(self, call: Call) -> Value | None:
        self._runs.append(self._begun)
        return None

    def called(self, call: Call, result: Value, clock: float) -> None:
        ran = self._runs.pop() < self._begun
        reading = self._current()
        if reading is not None:
            try:
                question = question_of(call, self.table)
                reading.items.append(["call", question, self.table.number(result), clock, int(ran)])
            except Unwritable:
                self._closed.add(reading.call.ref)

    def ask(self, kind: QueryKind, owner: str, name: str) -> Value | _Missing | None:
        self._stack.append(None)
        return MISSING

    def tell(self, kind: QueryKind, owner: str, name: str, value: Value | None) -> None:
        self._stack.pop()
        self._serial += 1
        table = self.table
        owners, names = table.name(owner), table.name(name)
        key = f"{kind} {owners} {names}"
        known = self._queries.get(key)
        reading = self._current()
        if reading is None:
            if known is None:
                self._queries[key] = self._serial, 0, NOTHING
            return
        try:
            answer = table.number(value)
        except Unwritable:
            self._closed.add(reading.call.ref)
            return
        reading.items.append([kind, owners, names, answer, int(known is None)])
        reading.asked.append((owner, self._serial))
        self._queries[key] = known[0] if known is not None else self._serial, self._serial, answer

    def mark(self, kind: MarkKind, key: str, first: bool) -> None:
        reading = self._current()
        if reading is not None:
            reading.items.append([kind, self.table.name(key), int(first)])

    def effect(self, kind: EffectKind, owner: str, name: str, value: Value | None) -> None:
        reading = self._current()
        if reading is not None:
            table = self.table
            try:
                reading.items.append([kind, table.name(owner), table.name(name), table.number(value)])
            except Unwritable:
                self._closed.add(reading.call.ref)

    def changed(self, owner: str) -> None:
        self._serial += 1
        self._changes[owner] = self._serial

    def nested(self, ref: str) -> None:
        reading = self._current()
        owner = outermost(self._project, ref)
        if reading is None or reading.call.ref != owner:
            # Its lines are read inside another function's reading.
            self._closed.add(owner)
            if reading is not None:
                self._closed.add(reading.call.ref)

    def decided(self, uses: Sequence[Use]) -> None:
        reading = self._current()
        users = {outermost(self._project, f"{use.path}::{use.function}") for use in uses}
        if reading is not None and users != {reading.call.ref}:
            # Those of a function that the condition calls: the caller decides about them.
            self._closed.add(reading.call.ref)

    def _current(self) -> _Reading | None:
        return self._stack[-1] if self._stack else None


_QUERIES = frozenset(("attribute", "initial", "class", "bound"))


def question_of(call: Call, table: ValueTable) -> list[Any]:
    """As JSON; keywords in order of their names. Raises Unwritable."""
    arguments = call.arguments
    return [
        table.name(call.ref),
        table.number(call.bound),
        table.numbers(arguments.positional),
        [[name, table.number(value)] for name, value in sorted(arguments.keywords.items(), key=_first)],
        int(arguments.open),
        int(call.hot),
        int(call.guarded),
        call.depth,
    ]


def header(project: Project, ref: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """A digest of what others than its readings look at: the lines before the body, and whether that is abstract."""
    facts = project.function_facts(ref)
    path = ref.partition("::")[0]
    try:
        lines = project.files.source(path).lines
    except (KeyError, Unreadable):
        lines = ()
    assert facts is not None
    first, last = facts.line - 1, facts.end_line
    body = node.body[0]
    start = body.lineno - 1
    decorators: list[ast.expr] = getattr(body, "decorator_list", [])
    if decorators:
        start = min(start, *(decorator.lineno - 1 for decorator in decorators))
    if start < len(lines) and lines[start].encode()[: body.col_offset].strip() and not decorators:
        # The body stands on the header's last line.
        start = last
    return digest(repr((lines[first:start], is_abstract(node))).encode("utf-8", "surrogatepass"))


def outermost(project: Project, ref: str) -> str:
    """The function of the project inside which a nested one is defined."""
    path, _, name = ref.partition("::")
    while name and project.function_facts(f"{path}::{name}") is None:
        name = name.rpartition(".")[0]
    return f"{path}::{name}"


def _first(item: tuple[str, Value]) -> str:
    return item[0]
