"""Reads functions as if they ran: one walk that follows values through calls and notes what each hot line does.

A function is read once for each different set of arguments. What its lines do is kept by place, so that a line reached
in several ways gives one event; how it was reached is kept apart, as edges between functions, and a chain of calls is
looked up only for what is reported.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from graphsafe.libraries import Libraries
from graphsafe.optable import OpTable
from graphsafe.report.model import Confidence, Level
from graphsafe.scan.checks import draws
from graphsafe.scan.checks.provenance import first_step_only, is_filled_here
from graphsafe.scan.domain.arguments import Arguments, Call
from graphsafe.scan.domain.events import Event, EventKind, expression_text, span_of
from graphsafe.scan.domain.joins import join_all
from graphsafe.scan.domain.record import ENTRY_POINT, SITE, Edge, Failure, Place, Record
from graphsafe.scan.domain.state_log import Use
from graphsafe.scan.domain.values import (
    NONE,
    UNKNOWN,
    Function,
    Instance,
    Tensor,
    Unknown,
    Value,
    depends_on_step,
    holds_device,
    of_elements,
)
from graphsafe.scan.interpreter import attributes, expressions, parameters, statements
from graphsafe.scan.interpreter.annotations import annotated
from graphsafe.scan.interpreter.call_frame import Frame
from graphsafe.scan.interpreter.memo import MAX_DEPTH, MISSING, Memo
from graphsafe.scan.interpreter.module_level import ModuleLevel
from graphsafe.scan.interpreter.name_based_arguments import Passed, passed_by
from graphsafe.scan.roots.call_budget import Horizon, Vicinity
from graphsafe.scan.symbols.custom_ops import CustomOps
from graphsafe.scan.symbols.environment import Variables
from graphsafe.scan.symbols.index import FileIndex
from graphsafe.scan.symbols.overrides import Overrides
from graphsafe.scan.symbols.project import Project


class Engine:
    def __init__(
        self,
        project: Project,
        ops: OpTable,
        cold: parameters.ColdTest,
        libraries: Libraries | None = None,
        near: Vicinity | None = None,
    ) -> None:
        self.project = project
        self.horizon = Horizon(project, near)
        self.ops = ops
        self.cold = cold
        self.libraries = libraries or Libraries()
        self.record = Record()
        self.state = self.record.state
        self.queue: deque[tuple[str, Value | None, bool]] = deque()
        "Functions to read by themselves: function, receiver, whether only guarded code calls it."
        self.attributes = attributes.AttributeTables(self)
        self.globals = ModuleLevel(self)
        self.overrides = Overrides(project, self.horizon)
        self.custom_ops = CustomOps(project)
        self.variables = Variables(project)
        self.types: dict[tuple[str, str], Value] = {}
        "What annotations promise: file and the name in it -> value."
        self.aliases: dict[tuple[str, str], Value] = {}
        "What type aliases promise: file and name -> value."
        self.memo = Memo()
        self.passed = Passed()
        self._alone: set[tuple[str, Value | None, bool]] = set()
        "Functions that have been read by themselves, of which nothing more was known."
        self._closures = 0

    # events

    def emit(
        self,
        frame: Frame,
        kind: EventKind,
        how: str,
        node: ast.AST,
        confidence: Confidence = "likely",
        level: Level | None = None,
        **words: str,
    ) -> None:
        if not frame.hot:
            return
        span = span_of(node)
        if frame.doubts:
            confidence = "possible"
        guard = frame.guard
        once = first_step_only(frame)
        if guard is None and once and (kind == "Rng" or how == "literal-device" or is_filled_here(self, frame)):
            guard = "a test that only a first step passes"
        if guard is None and how == "host-random" and isinstance(node, ast.Call):
            if draws.only_in_training(self, frame, node):
                guard = "`if self.training`"
            elif draws.is_seeded(self, frame):
                confidence = "possible"
        place = Place(frame.path, frame.function, span, kind, how)
        if self.record.would_change(place, guard, confidence):
            if "expr" not in words:
                words["expr"] = expression_text(node)
            self.record.events[place] = Event(
                kind, how, span, confidence, guard, level, words, once, frame.compile_test
            )

    # names

    def name(self, frame: Frame, name: str) -> Value:
        if name in frame.env:
            return frame.env[name]
        return self.globals.value(frame.file, name)

    # calls

    def call(self, frame: Frame, node: ast.AST, function: Function, arguments: Arguments) -> Value:
        """Read the function with these arguments; what it returns."""
        if function.node is not None:
            return self._call_nested(frame, node, function, arguments)
        ref = function.ref
        facts = self.project.function_facts(ref)
        if facts is None:
            return self.after_unknown(arguments)
        away = self.horizon.away(frame, ref)
        if away is None:
            return self.declared(ref, arguments)
        # What surrounds a capture runs once, before the first replay.
        hot = frame.hot and not facts.captures and not self.cold(ref, facts)
        if hot:
            line = getattr(node, "lineno", facts.line)
            self.record.edge(ref, Edge(frame.ref, line, frame.guard is not None, frame.compile_test))
        if function.partial or function.partial_keywords:
            arguments = Arguments(
                (*function.partial, *arguments.positional),
                {**dict(function.partial_keywords), **arguments.keywords},
                arguments.open,
            )
        guarded = frame.guard is not None or bool(frame.doubts) or (bool(frame.lazy) and is_filled_here(self, frame))
        return self.read(Call(ref, function.bound, arguments, hot, guarded, frame.depth + 1), away)

    def read(self, call: Call, away: int = 0) -> Value:
        """What a function returns for these arguments: it is read for them, unless it has been."""
        ref, arguments, hot, guarded = call.ref, call.arguments, call.hot, call.guarded
        if self.project.function_facts(ref) is None:
            return UNKNOWN
        memo = self.memo
        given: object = (ref, call.bound, arguments.positional, tuple(sorted(arguments.keywords.items(), key=_first)))
        try:
            known: Any = memo.result(given, hot, guarded)
        except TypeError:
            given, known = None, MISSING
        if known is not MISSING:
            return self.declared(ref) if known is None else known
        if not memo.admits(ref, hot, guarded, call.depth):
            return self.declared(ref, arguments)
        node = self.project.function_node(ref)
        if node is None:
            return self.after_unknown(arguments)
        memo.begin(ref, hot, guarded, given)
        result = self.read_anew(call, node, away)
        memo.end(hot, guarded, given, result)
        return result

    def read_anew(self, call: Call, node: ast.FunctionDef | ast.AsyncFunctionDef, away: int = 0) -> Value:
        """What a function returns, whatever is known of it: `node` is read."""
        ref, arguments = call.ref, call.arguments
        self.horizon.readings += 1
        facts = self.project.function_facts(ref)
        path = ref.partition("::")[0]
        file = self.project.index(path)
        assert file is not None and facts is not None
        owner = f"{path}::{facts.owner}" if facts.owner is not None else None
        frame = Frame(file, ref, {}, call.hot, call.depth, owner, call.bound, away=away)
        if call.guarded:
            frame.guards.append("reached only where captures do not go")
        parameters.bind(self, frame, node, facts, call.bound, arguments)
        outermost = ref not in self.memo.active
        self.memo.active.add(ref)
        try:
            result = self._run(frame, node)
        finally:
            if outermost:
                self.memo.active.discard(ref)
        if type(result) is Unknown and node.returns is not None:
            declared = annotated(self, file, node.returns)
            if type(declared) is not Unknown:
                result = _marked(declared, depends_on_step(result) or any(map(depends_on_step, arguments.values())))
        return result

    def _run(self, frame: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Value:
        frame.node = node
        falls_through = statements.execute(self, frame, node.body)
        if frame.yields:
            return of_elements("iterator", join_all(frame.yields))
        if falls_through:
            frame.returns.append(NONE)
        return join_all(frame.returns) if frame.returns else UNKNOWN

    def _call_nested(self, frame: Frame, call: ast.AST, function: Function, arguments: Arguments) -> Value:
        node = function.node
        if frame.depth > MAX_DEPTH:
            return UNKNOWN
        if function.bound is not None:
            arguments = Arguments((function.bound, *arguments.positional), arguments.keywords, arguments.open)
        arguments = Arguments(
            (*function.partial, *arguments.positional),
            {**dict(function.partial_keywords), **arguments.keywords},
            arguments.open,
        )
        inner = Frame(
            frame.file if function.ref.startswith(frame.path + "::") else self._file_of(function.ref) or frame.file,
            function.ref,
            dict(function.closure or {}),
            frame.hot,
            frame.depth + 1,
            frame.owner,
            (function.closure or {}).get("self"),
            list(frame.guards),
            frame.doubts,
            away=frame.away,
            compile_tests=list(frame.compile_tests),
        )
        key = f"{function.ref}#{function.closure_id}"
        if key in self.memo.active:
            return UNKNOWN
        self.memo.active.add(key)
        if frame.hot and function.ref != frame.ref:
            line = getattr(call, "lineno", getattr(node, "lineno", 1))
            self.record.edge(function.ref, Edge(frame.ref, line, frame.guard is not None, frame.compile_test))
        try:
            if isinstance(node, ast.Lambda):
                parameters.bind_lambda(self, inner, node, arguments)
                return expressions.evaluate(self, inner, node.body)
            assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            parameters.bind(self, inner, node, None, None, arguments)
            return self._run(inner, node)
        finally:
            self.memo.active.discard(key)

    def _file_of(self, ref: str) -> FileIndex | None:
        return self.project.index(ref.partition("::")[0])

    def nested(self, frame: Frame, node: ast.AST, name: str) -> Function:
        """A function or lambda defined inside another, with the names that it sees."""
        self._closures += 1
        ref = f"{frame.ref}.{name}" if frame.function else f"{frame.path}::{name}"
        return Function(ref, node=node, closure=frame.env, closure_id=self._closures)

    def declared(self, ref: str, arguments: Arguments | None = None) -> Value:
        """What a function says of its own result, for one that is not read (again)."""
        node = self.project.function_node(ref)
        file = self._file_of(ref)
        step = arguments is not None and any(map(depends_on_step, arguments.values()))
        if node is None or file is None or node.returns is None:
            return Unknown(step, arguments is not None and any(map(holds_device, arguments.values())))
        return _marked(annotated(self, file, node.returns), step)

    @staticmethod
    def after_unknown(arguments: Arguments) -> Value:
        """What a call of something unknown returns: unknown, though it carries on what it was given."""
        return Unknown(any(map(depends_on_step, arguments.values())), any(map(holds_device, arguments.values())))

    def is_cold(self, ref: str) -> bool:
        facts = self.project.function_facts(ref)
        return facts is not None and self.cold(ref, facts)

    def call_later(self, frame: Frame, node: ast.AST, ref: str, receiver: Value) -> None:
        """Have a function read that a call may mean, with arguments that are not followed."""
        if self.horizon.holds(ref):
            self.record.edge(
                ref, Edge(frame.ref, getattr(node, "lineno", 1), frame.guard is not None, frame.compile_test)
            )
            guarded = frame.guard is not None or bool(frame.doubts)
            self.queue.append((ref, receiver, guarded))

    def add_root(self, ref: str, receiver: Value | None, why: str) -> None:
        if self.horizon.holds(ref):
            self.record.root(ref, why)
            self.queue.append((ref, receiver, False))

    # roots

    def fail(self, failure: Failure) -> None:
        """Give up what is being read; what was found so far stays."""
        self.memo.active.clear()
        self.record.failures[failure] = None

    def add_root_site(self, frame: Frame) -> None:
        """The function that `frame` reads holds a capture: what stands inside it is hot."""
        self.record.roots.setdefault(frame.ref, SITE)

    def read_alone(self, ref: str, receiver: Value | None, guarded: bool) -> None:
        """Read a function whose arguments are not known, but for what calls of an entry point's name have shown."""
        if self.horizon.is_reached():
            return
        told: dict[str, Value] = {}
        hosts = self.passed.on_host(ref)
        if hosts and self.record.roots.get(ref) == ENTRY_POINT:
            told = {name: hosts[name] for name in self._parameters(ref) if name in hosts}
        elif (ref, receiver, guarded) in self._alone:
            return
        else:
            self._alone.add((ref, receiver, guarded))
        self.read(Call(ref, receiver, Arguments(keywords=told), hot=True, guarded=guarded))

    def _parameters(self, ref: str) -> Sequence[str]:
        node = self.project.function_node(ref)
        return [argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)] if node is not None else []

    def note_passed(self, name: str, arguments: Arguments) -> None:
        """A method is called of which only the name is known."""
        for tensor in passed_by(arguments):
            self.passed.keep(name, tensor)

    def note_input(self, attribute: str) -> None:
        """The tensor of an attribute changes from step to step."""
        self.state.inputs.add(attribute)

    def note_seen(self, attribute: str) -> None:
        """Hot code reads an attribute."""
        self.state.read(attribute)

    def note_use(self, use: Use) -> None:
        """Host state decides what the device does."""
        self.state.use(use)

    def count_uses(self) -> int:
        """Of host state, so far: to be told to the next two when a condition is known."""
        return len(self.state.uses)

    def has_used(self, uses: int) -> bool:
        """Whether there are more uses of host state than so many: those of a condition."""
        return len(self.state.uses) > uses

    def forget_uses(self, uses: int) -> None:
        """Drop all but the first uses: the condition that made the others decides nothing on the device."""
        self.state.forget_uses(uses)


def _first(item: tuple[str, Value]) -> str:
    return item[0]


def _marked(value: Value, step: bool) -> Value:
    if step and isinstance(value, (Tensor, Instance)):
        return replace(value, step=True)
    return value
