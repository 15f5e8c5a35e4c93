"""What each reading of a function asked of the rest of the scan, and what it was told.

With these answers a function can be read again after an edit without what lies around it (rereading.py), as long as it
asks the same and returns the same. A reading that cannot be kept so makes its function one that cannot be read again.
"""

from __future__ import annotations

import ast
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from graphsafe.scan.domain.arguments import Arguments, Call
from graphsafe.scan.domain.values import Value
from graphsafe.scan.incremental.cache import digest
from graphsafe.scan.incremental.reading import Item
from graphsafe.scan.incremental.value_table import ValueTable
from graphsafe.scan.interpreter.memo import MISSING, Missing
from graphsafe.scan.sources.source import Unreadable
from graphsafe.scan.symbols.overrides import is_abstract
from graphsafe.scan.symbols.project import Project

if TYPE_CHECKING:
    from graphsafe.scan.domain.state_log import StateLog, Use

Answer = TypeVar("Answer", bound="Value | None")
QueryKind = Literal["attribute", "initial", "class", "bound"]
MarkKind = Literal["seen", "input"]
EffectKind = Literal["record", "expect", "later", "root", "site", "passed"]
Way = Literal["read", "told", "declared", "refused", "unread"]
"""How a call was answered: by a reading, by one before, by what the function declares (because it is being read, or is
not read any more), or by nothing (because it cannot be read)."""
Held = tuple["Value | None", "Value | None"]
"What an attribute holds, and what it is expected to hold."
QUERIES = frozenset(("attribute", "initial", "class", "bound"))
RAN, WAY, ADDED = 4, 5, 6
"Where the item of a call says whether it led to readings, how it was answered, how many uses of state that added."
FIRST, STABLE, INNER, HELD, EXPECTED = 4, 5, 6, 7, 8
"Where that of a query says whether it was the first of its kind, if the answer lasts, what that took, what was held."
OWN = frozenset(("use", "grown", "forget"))
"Items of what the reading itself does to the log of state."


class Journal(ABC):
    """What an engine tells of its readings: to be kept, or to be answered from what was kept."""

    @abstractmethod
    def call(self, call: Call, uses: int) -> Value | None:
        """The answer, or None: it has to be worked out, and `called` be told. `uses`: those of state so far."""

    @abstractmethod
    def ask(self, kind: QueryKind, owner: str, name: str) -> Value | Missing | None:
        """The answer, or MISSING: it has to be worked out, and `tell` be told."""

    @abstractmethod
    def mark(self, kind: MarkKind, key: str, first: bool) -> None:
        """Something that counts once, however often it happens."""

    @abstractmethod
    def effect(self, kind: EffectKind, owner: str, name: str, value: Value | None) -> bool:
        """Something that others may see; whether it has been done already."""

    @abstractmethod
    def use(self, use: Use, is_new: bool) -> bool:
        """State of the host is used; whether that has been noted already."""

    @abstractmethod
    def grown(self, uses: Sequence[Use]) -> bool:
        """Whether a condition has used state: these uses are new since it began."""

    @abstractmethod
    def forget(self, uses: int) -> bool:
        """The last uses do not count; whether they are forgotten already."""

    def count(self, uses: int) -> int:
        """How many uses there are when a condition begins: `uses`, or how many there were."""
        return uses

    def parameters(self, ref: str) -> Sequence[str] | None:
        """The names of a root's parameters, or None: they have to be looked up, and `named` be told."""
        return None

    # what is told without a question: a journal need not care, so these do nothing
    # ruff: noqa: B027

    def begin(self, call: Call, node: ast.FunctionDef | ast.AsyncFunctionDef, clock: float) -> None:
        """A function is read; `end` when it has been."""

    def end(self, result: Value, clock: float) -> None:
        """What the last reading that has begun came to."""

    def fail(self) -> None:
        """All that is being read is given up."""

    def called(self, call: Call, result: Value, way: Way, state: StateLog) -> None:
        """The answer to a call that was worked out."""

    def tell(self, kind: QueryKind, owner: str, name: str, value: Value | None, held: Held) -> None:
        """The answer to a question that was worked out."""

    def recorded(self, owner: str, name: str, before: Held, after: Held) -> None:
        """The effect just told of was to record an attribute: what is in it, and what constructors leave there.

        After it, the latter is None where this was no constructor's.
        """

    def expected(self, owner: str, name: str, held: Held) -> None:
        """The effect just told of was to expect something of an attribute: what is in it now."""

    def changed(self, owner: str) -> None:
        """What is known of a class's attributes has changed."""

    def constructing(self, ref: str) -> None:
        """The constructors of a class are read for the first time; `constructed` when they are."""

    def constructed(self) -> None:
        """Those of the class that was told of last."""

    def needs(self, ref: str, method: str, is_done: bool) -> None:
        """An answer rests on what a method assigns, or constructors do; it is read now unless that is done."""

    def named(self, ref: str, parameters: Sequence[str]) -> None:
        """The names of a root's parameters."""

    def nested(self, ref: str, closure: int) -> None:
        """A function defined inside another is called; `closure`: Function.closure_id."""


def answered(
    journal: Journal | None,
    kind: QueryKind,
    owner: str,
    name: str,
    work_out: Callable[[str, str], Answer],
    held: Callable[[str, str], Held] | None = None,
) -> Answer:
    """The answer of `work_out` to a question, which the journal is told of or may know."""
    if journal is None:
        return work_out(owner, name)
    told = journal.ask(kind, owner, name)
    if told is MISSING:
        told = work_out(owner, name)
        journal.tell(kind, owner, name, told, held(owner, name) if held is not None else (None, None))
    return told  # type: ignore[return-value]  # what was told of such a question before is of the same kind


def use_item(use: Use, is_new: bool, table: ValueTable) -> Item:
    where = map(table.name, (use.path, use.function))
    return ["use", table.name(use.key), use.kind, *where, use.line, use.order, int(is_new)]


class Question(NamedTuple):
    """What a call asks, in numbers of a table."""

    given: int
    "What makes readings the same: the function, its object, and the arguments, keywords in order of their names."
    ref: int
    open: int
    hot: int
    guarded: int
    depth: int


def question_of(call: Call, table: ValueTable) -> int:
    """The number of what a call asks. Raises Unwritable for what has no hash."""
    arguments = call.arguments
    ref = table.name(call.ref)
    bound = table.any_number(call.bound)
    positional = tuple(map(table.any_number, arguments.positional))
    named = [(name, table.any_number(value)) for name, value in sorted(arguments.keywords.items(), key=_first)]
    keywords = [f"[{json.dumps(name)},{value}]" for name, value in named]
    values = (bound, *positional, *(value for _, value in named))
    given = table.row(f"[{ref},{bound},[{','.join(map(str, positional))}],[{','.join(keywords)}]]", values)
    how = f"{int(arguments.open)},{int(call.hot)},{int(call.guarded)},{call.depth}"
    return table.row(f"[{given},{ref},{how}]", (given,))


def parts_of(question: int, table: ValueTable) -> Question:
    return Question(*table.flat_parts(question))


def call_of(question: int, order: Sequence[str], table: ValueTable) -> Call:
    """The call that asks this, its keywords in this order. Raises Unwritable where it holds what was not written."""
    asked = parts_of(question, table)
    ref, bound, positional, keywords = table.parts(asked.given)
    named = {name: table.some(value) for name, value in keywords}
    arguments = Arguments(tuple(map(table.some, positional)), {name: named[name] for name in order}, bool(asked.open))
    return Call(table.text(ref), table.value(bound), arguments, bool(asked.hot), bool(asked.guarded), asked.depth)


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
