"""The frame that each handler, model and hazard receives: the call that is being interpreted, and its engine.

`Engine` declares the questions that handlers may ask the engine. Handlers cannot import the engine itself, because it
is built from them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from graphsafe.optable import OpTable
from graphsafe.report.model import Confidence, Level
from graphsafe.rulebook.libraries import Libraries
from graphsafe.rulebook.vocabulary import EventKind
from graphsafe.scan.domain import frozen
from graphsafe.scan.domain.arguments import TOP_LEVEL, Arguments, Call
from graphsafe.scan.domain.events import CompileTest
from graphsafe.scan.domain.queries import Queries
from graphsafe.scan.domain.state_log import UseKind
from graphsafe.scan.domain.summary import Effects, Item, Summary
from graphsafe.scan.domain.values import (
    UNKNOWN,
    Function,
    Instance,
    Passed,
    Unknown,
    Value,
    as_tensor,
    confidence_of,
    describe,
)
from graphsafe.scan.execution.budget import CallBudget
from graphsafe.scan.symbols.blocks import Definition
from graphsafe.scan.symbols.index import FileIndex
from graphsafe.scan.symbols.overrides import Overrides
from graphsafe.scan.symbols.project import Binding, Project

Result = TypeVar("Result")


@frozen.dataclass(frozen=True, slots=True)
class LazyTest:
    """A test such as `if self.plan is None:`, which makes code run on the first step only."""

    target: str
    "The missing value as written in the code: `self.plan`, `self.cache`."
    line: int
    alone: bool = True
    "Whether the code runs only if the value is missing. This is False for `if self.plan is None or self.size != n:`."


@dataclass(slots=True)
class Frame:
    engine: Engine
    file: FileIndex
    ref: str
    "`path::Qual.name` of the function; `path::` at module level."
    env: dict[str, Value]
    hot: bool
    "Whether the function is hot. If so, the effects of its lines are emitted. Constructors and class bodies are cold."
    depth: int = 0
    """The depth of the call. It is 0 if the caller is not known. Otherwise it is 1 in hot code, and in cold code it is
    the number of cold calls that led here."""
    owner: str | None = None
    "The class whose body contains the function, for `super()`."
    self_value: Value | None = None
    guards: list[str] = field(default_factory=list)
    "Conditions that keep the current line out of captures."
    unlikely: int = 0
    "The number of constructs around the current line that a step is unlikely to enter, such as exception handlers."
    seldom: int = 0
    """The number of conditions around the current line that are true only in some iterations of a loop: `if step % 100
    == 0:`."""
    returns: list[Value] = field(default_factory=list)
    yields: list[Value] = field(default_factory=list)
    contexts: list[str] = field(default_factory=list)
    """The contexts of devices and streams around the current line, the outermost first. `device` and `host` stand for
    `with torch.device(…):`, which sets the default device of new tensors. Any other entry is the context's kind."""
    tries: list[ast.Try] = field(default_factory=list)
    decided: set[tuple[int, bool]] = field(default_factory=set)
    "The lines of `if` statements whose tests are decided, each with the only branch that this call takes."
    entered: list[ast.expr] = field(default_factory=list)
    "The context managers of the `with` statements around the current line, outermost first."
    node: Definition | None = None
    "The function's syntax tree; None at module level."
    lazy: list[LazyTest] = field(default_factory=list)
    "The tests for a missing attribute or key that enclose the current line."
    globals: set[str] = field(default_factory=set)
    out_of_scope: int = 0
    "The number of calls from the last function in scope to this one (budget.py)."
    level: int = TOP_LEVEL
    "The level of the methods that are read: see TOP_LEVEL (arguments.py)."
    captured: bool = False
    """Whether the code is inside a capture, or a capture calls the function although the `cold-paths` setting names the
    function."""
    composes: bool = False
    "`Call.composes` (arguments.py)."
    between: bool = False
    "`Call.between` (arguments.py)."
    cells: str | None = None
    "The function that made this closure, if the closure outlives the step. The closure's variables are then state."
    step_loops: tuple[int, ...] = ()
    "For a function that runs once: the first line of each of its loops whose body runs in every step."
    nonlocals: set[str] = field(default_factory=set)
    touches_device: bool = False
    "Whether, so far, the lines in the innermost condition do more than update state of the host."
    compile_tests: list[CompileTest] = field(default_factory=list)
    "Tests around the current line. At a capture, their result depends on whether torch.compile is used."
    inlined: bool = False
    "Whether this is a closure that another function calls. Its effects count as effects of the calling function."
    project: Project = field(init=False)
    ops: OpTable = field(init=False)
    attributes: Attributes = field(init=False)

    def __post_init__(self) -> None:
        engine = self.engine
        self.project, self.ops, self.attributes = engine.project, engine.ops, engine.attributes

    @property
    def guard(self) -> str | None:
        """The innermost condition that keeps the current line out of all captures, or None."""
        if self.guards:
            return self.guards[-1]
        last = self.compile_test
        # No capture reaches the body of `if not is_compiling():` inside `if is_compiling():`, so the inner test is a
        # guard too.
        return last.text if last and any(test.compiling is not last.compiling for test in self.compile_tests) else None

    @property
    def compile_test(self) -> CompileTest | None:
        return self.compile_tests[-1] if self.compile_tests else None

    @property
    def conditions(self) -> tuple[int, int]:
        """The numbers of guards and tests around the current line. `leave` restores them."""
        return len(self.guards), len(self.compile_tests)

    def leave(self, conditions: tuple[int, int]) -> None:
        guards, tests = conditions
        del self.guards[guards:]
        del self.compile_tests[tests:]

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def function(self) -> str:
        return self.ref.partition("::")[2]

    # shortcuts for the questions that handlers ask most often

    def evaluate(self, node: ast.expr) -> Value:
        """Return the value of an expression, and record its effects."""
        kind = type(node)
        if kind is ast.Name:
            # Local names have this fast path, because half of all expressions are names, and most names are local.
            local = self.env.get(node.id)  # type: ignore[attr-defined]
            if local is not None and node.id not in self.globals:  # type: ignore[attr-defined]
                return local
        handler = self.engine.expressions.get(kind)
        return UNKNOWN if handler is None else handler(self, node)

    def evaluate_quietly(self, node: ast.expr) -> Value:
        """Return the value of an expression without recording its effects. This is for expressions that are evaluated
        more than once."""
        return self.engine.quietly(lambda: self.evaluate(node))

    def name(self, name: str) -> Value:
        """Return the value of a local or global name at this point."""
        if name in self.env:
            return self.env[name]
        return self.engine.globals.value(self.file, name)

    def emit(
        self,
        kind: EventKind,
        how: str,
        node: ast.AST,
        confidence: Confidence = "likely",
        level: Level | None = None,
        **words: str,
    ) -> None:
        """Emit an event for an effect of a hot line. Rules match events."""
        if self.hot:
            self.engine.emit(self, kind, how, node, confidence, level, words)

    def emit_if_on_device(
        self, kind: EventKind, how: str, node: ast.AST, value: Value, shown: str | None = None
    ) -> bool:
        """Emit an event about a value that is, or may be, a device tensor. Return False for a value that is not known
        to be a tensor.

        Inside a capture, an event is also emitted for the unknown result of a call with device tensors, because this
        result may be a device tensor. `shown` replaces the description of the value in the message.
        """
        tensor, certain = as_tensor(value)
        if self.captured and type(value) is Unknown and (value.device or value.compared):
            self.emit(kind, how, node, "possible", value=shown or describe(value))
        if tensor is None or tensor.where == "host":
            return False
        self.emit(kind, how, node, confidence_of(tensor, certain), value=shown or describe(value))
        return True

    def use_number(self, value: Value, kind: UseKind, node: ast.AST) -> None:
        """Record that a host number which outlives the step affects the device's work here."""
        if self.hot:
            self.engine.use_number(self, value, kind, node)

    def note_call(self, node: ast.AST, ref: str, line: int = 1) -> None:
        """Record that hot code calls a function. `line` is the line of the call if `node` has no line."""
        self.engine.note_call(self, node, ref, line)

    def call(self, node: ast.AST, function: Function, arguments: Arguments) -> Value:
        """Return the function's result for these arguments. Its effects count as effects of the calling line."""
        return self.engine.call(self, node, function, arguments)

    def call_value(self, node: ast.Call, value: Value, arguments: Arguments) -> Value:
        """Return the result of calling a value of any kind."""
        return self.engine.call_value(self, node, value, arguments)

    def call_later(self, node: ast.AST, ref: str, receiver: Value) -> None:
        """Plan to read a function later with unknown arguments, because other code may call it."""
        self.engine.call_later(self, node, ref, receiver)

    def attribute(self, node: ast.expr, owner: Value, name: str, text: str | None) -> Value:
        """Return the value of an attribute. `text` is the expression as written in the code."""
        return self.engine.attribute(self, node, owner, name, text)


class Attributes(Protocol):
    """The values of attributes, and the values that cold code assigns to them."""

    @property
    def marked(self) -> dict[tuple[str, str], tuple[Value, Value]]: ...
    def key(self, ref: str, name: str) -> str: ...
    def is_module(self, ref: str) -> bool: ...
    def has_plain_fields(self, ref: str) -> bool: ...
    def field_names(self, ref: str) -> Sequence[str]: ...
    def initial(self, owner: Instance, name: str) -> Value | None: ...
    def of_class(self, ref: str, name: str) -> Value: ...
    def of_instance(self, owner: Instance, name: str, level: int = ...) -> Value | None: ...
    def record(self, ref: str, name: str, value: Value) -> None: ...
    def expect(self, ref: str, name: str, value: Value) -> None: ...
    def constructed(self, ref: str, values: Mapping[str, Value]) -> None: ...
    def given(self, ref: str, values: Mapping[str, Value], captures: bool) -> None: ...

    def passed(self, ref: str, values: Mapping[str, Value]) -> None: ...


class Globals(Protocol):
    """The meaning of names at module level."""

    def value(self, file: FileIndex, name: str) -> Value: ...
    def bound(self, binding: Binding) -> Value: ...


class Closures(Protocol):
    """The functions and lambdas that are defined inside other functions."""

    given: Mapping[str, tuple[list[str], Arguments]]

    def define(self, frame: Frame, node: Definition | ast.Lambda) -> Function: ...
    def call(self, frame: Frame, call: ast.AST, function: Function, arguments: Arguments) -> Value: ...


class Engine(Protocol):
    """The questions that handlers may ask the engine.

    interpreter/interpreter.py answers these questions, and documents the questions that have no shortcut in `Frame`.
    """

    effects: Effects
    applied: Set[str]
    "The files of the packages that the project's scripts run."
    loops_of: Callable[[str], tuple[int, ...] | None]

    @property
    def project(self) -> Project: ...
    @property
    def ops(self) -> OpTable: ...
    @property
    def libraries(self) -> Libraries: ...
    @property
    def queries(self) -> Queries: ...
    @property
    def budget(self) -> CallBudget: ...
    @property
    def overrides(self) -> Overrides: ...
    @property
    def attributes(self) -> Attributes: ...
    @property
    def globals(self) -> Globals: ...
    @property
    def closures(self) -> Closures: ...
    @property
    def expressions(self) -> Mapping[type[ast.expr], Callable[[Frame, Any], Value]]: ...

    # effects of lines

    def emit(
        self,
        frame: Frame,
        kind: EventKind,
        how: str,
        node: ast.AST,
        confidence: Confidence,
        level: Level | None,
        words: dict[str, str],
    ) -> None: ...
    def use_number(self, frame: Frame, value: Value, kind: UseKind, node: ast.AST) -> None: ...
    def note(self, item: Item) -> None: ...
    def note_read(self, frame: Frame, key: str, own: bool = False) -> None: ...
    def note_call(self, frame: Frame, node: ast.AST, ref: str, line: int = ...) -> None: ...
    def quietly(self, work: Callable[[], Result]) -> Result: ...

    # values and calls

    def call_value(self, frame: Frame, node: ast.Call, value: Value, arguments: Arguments) -> Value: ...
    def attribute(self, frame: Frame, node: ast.expr, owner: Value, name: str, text: str | None) -> Value: ...
    def call(self, frame: Frame, node: ast.AST, function: Function, arguments: Arguments) -> Value: ...
    def call_later(self, frame: Frame, node: ast.AST, ref: str, receiver: Value) -> None: ...
    def read(self, call: Call, guarded: bool = ..., once: bool = ..., out_of_scope: int = ...) -> Value: ...
    def summary(self, call: Call, out_of_scope: int = ...) -> Summary | None: ...
    def collect(self, work: Callable[[], Value], ref: str) -> Summary: ...
    def run(self, frame: Frame, node: Definition) -> Value: ...
    def is_cold(self, ref: str) -> bool: ...

    # roots

    def add_root(self, ref: str, receiver: Value | None, why: str, given: Passed | None = ...) -> None: ...
