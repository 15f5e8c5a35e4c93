"""Functions and lambdas that are defined inside another function. Each call of such a function is interpreted anew."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import replace
from sys import intern

from graphsafe.scan.domain.arguments import Arguments, arguments_of, behind_partial
from graphsafe.scan.domain.held import held_in
from graphsafe.scan.domain.record import Failure
from graphsafe.scan.domain.summary import Included, Summary
from graphsafe.scan.domain.values import UNKNOWN, Dict, Function, Passed, Sequence, Value
from graphsafe.scan.execution.budget import MANY_KINDS
from graphsafe.scan.execution.frame import Engine, Frame
from graphsafe.scan.interpreter.calls import parameters, training_closures
from graphsafe.scan.state.filled_once import is_filled_here
from graphsafe.scan.state.first_step import FIRST_STEP
from graphsafe.scan.symbols.blocks import Definition

MAX_NESTED = 30
"The largest number of nested closure calls that are followed within one function."
TOO_NESTED = "called by too many nested closures to be followed"


class Closures:
    """The closures of a scan. A closure has no summary, because its variables may change between two calls."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._called: set[int] = set()
        "The ids of the closures that are running now, because the function being interpreted has called them."
        self._count = 0
        self.given: Mapping[str, tuple[list[str], Arguments]] = {}
        "Function whose wrapper is being read -> the function's parameters, and the arguments of the function's call."

    def next_id(self) -> int:
        """Return a number that no closure has yet."""
        self._count += 1
        return self._count

    def define(self, frame: Frame, node: Definition | ast.Lambda) -> Function:
        """Return the closure of a nested function or a lambda, with the names that are visible in it."""
        name = self._lambda(frame, node) if isinstance(node, ast.Lambda) else node.name
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)) if frame.hot else ():
            frame.evaluate(default)  # a hot function evaluates defaults here, even if it never calls the new function
        ref = intern(f"{frame.ref}.{name}" if frame.function else f"{frame.path}::{name}")
        made = Function(ref, node=node, closure=frame.env, closure_id=self.next_id(), kept=not frame.hot)
        training_closures.note(frame, made)
        return made

    def _lambda(self, frame: Frame, node: ast.Lambda) -> str:
        """Return a name for a lambda: its line, counted from the first line of the function around it."""
        project = self._engine.project
        outer = project.function_around(frame.ref)
        return f"<lambda>:{node.lineno - (outer.line if outer is not None else 0)}"

    def in_another_function(self, work: Callable[[], Summary]) -> Summary:
        """Run `work`, which reads another function. Inside `work`, a call of a closure does not count as recursion if
        the closure was already running before `work`."""
        called, self._called = self._called, set()
        try:
            return work()
        finally:
            self._called = called

    def call(self, frame: Frame, call: ast.AST, function: Function, arguments: Arguments) -> Value:
        """Return the result of a closure, or an unknown value if the closure calls itself."""
        if function.closure_id in self._called:
            return UNKNOWN
        if len(self._called) > MAX_NESTED:
            self._engine.note(Failure("not-followed", function.ref, TOO_NESTED))
            return UNKNOWN
        if not self._engine.budget.has_room_for(function.ref, self.next_id()):
            self._engine.note(Failure("not-followed", function.ref, MANY_KINDS))
            return UNKNOWN
        self._called.add(function.closure_id)
        try:
            return self._interpreted(frame, call, function, arguments)
        finally:
            self._called.discard(function.closure_id)

    def call_as_root(self, function: Function, given: Passed | None = None) -> Value:
        """Read a closure as a root, with the arguments that are known, and return its value."""
        file = self._engine.project.file_of(function.ref)
        if file is None:
            return UNKNOWN
        outside = Frame(self._engine, file, f"{file.path}::", {}, hot=True)
        frame = replace(self._frame(outside, function), depth=0)
        # Each root has its own summary, because a step does not continue in the environment of another step.
        summary = self._engine.collect(lambda: self._run(frame, function.node, arguments_of(given)), function.ref)
        self._engine.effects.items.append(Included(summary, function.ref, guarded=False))
        return summary.value

    def _interpreted(self, frame: Frame, call: ast.AST, function: Function, arguments: Arguments) -> Value:
        node = function.node
        if function.bound is not None:
            arguments = Arguments((function.bound, *arguments.positional), arguments.keywords, arguments.further)
        arguments = behind_partial(function, arguments)
        inner = self._frame(frame, function)
        inner.inlined = True
        if frame.hot and function.ref != frame.ref:
            frame.note_call(call, function.ref, getattr(node, "lineno", 1))
        return self._run(inner, node, arguments)

    def _run(self, inner: Frame, node: ast.AST | None, arguments: Arguments) -> Value:
        if isinstance(node, ast.Lambda):
            parameters.bind_lambda(inner, node, arguments)
            return inner.evaluate(node.body)
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return UNKNOWN
        parameters.bind(inner, node, None, None, arguments)
        return self._engine.run(inner, node)

    def _frame(self, frame: Frame, function: Function) -> Frame:
        closure = function.closure or {}
        own = function.ref.startswith(frame.path + "::")
        file = None if own else self._engine.project.file_of(function.ref)
        return Frame(
            self._engine,
            file or frame.file,
            function.ref,
            self._environment(frame, function, closure),
            frame.hot,
            max(frame.depth, 1),
            frame.owner,
            closure.get("self"),
            [*frame.guards, FIRST_STEP] if frame.lazy and is_filled_here(frame) else list(frame.guards),
            frame.unlikely,
            out_of_scope=frame.out_of_scope,
            compile_tests=list(frame.compile_tests),
            level=frame.level,
            cells=function.ref.rpartition(".")[0] if function.kept else None,
            composes=frame.composes,
        )

    @staticmethod
    def _environment(frame: Frame, function: Function, closure: Mapping[str, Value]) -> dict[str, Value]:
        """Return the names that are visible in a closure.

        If the closure outlives the step, the containers with these names outlive it too.
        """
        if not (function.kept and frame.hot):
            return dict(closure)
        outer = function.ref.rpartition(".")[0]
        return {
            name: held_in(value, f"{outer}.{name}") if isinstance(value, (Sequence, Dict)) else value
            for name, value in closure.items()
        }
