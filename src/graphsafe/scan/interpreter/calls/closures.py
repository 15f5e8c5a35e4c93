"""Functions and lambdas defined inside another function: they are interpreted where they are called."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from sys import intern
from typing import TYPE_CHECKING

from graphsafe.scan.checks.filled_once import is_filled_here
from graphsafe.scan.checks.first_step import FIRST_STEP
from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.held import held_in
from graphsafe.scan.domain.values import UNKNOWN, Dict, Function, Sequence, Value
from graphsafe.scan.interpreter.call_frame import Frame
from graphsafe.scan.interpreter.calls import parameters

if TYPE_CHECKING:
    from graphsafe.scan.interpreter.engine import Engine

MAX_NESTED = 30
"How deep calls of closures are followed within one function."


class Closures:
    """The closures of a scan. They have no summary of their own: what they see may change between two calls."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._called: set[int] = set()
        "Those that the function which is being interpreted is calling now."
        self._count = 0
        self.given: dict[str, tuple[list[str], Arguments]] = {}
        "Functions whose wrappers are being read -> their parameters, and what these were called with."

    def next_id(self) -> int:
        """A number that no closure has."""
        self._count += 1
        return self._count

    def define(self, frame: Frame, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Function:
        """A function or lambda defined inside another, with the names that it sees."""
        name = self._lambda(frame, node) if isinstance(node, ast.Lambda) else node.name
        ref = intern(f"{frame.ref}.{name}" if frame.function else f"{frame.path}::{name}")
        return Function(ref, node=node, closure=frame.env, closure_id=self.next_id(), kept=not frame.hot)

    def _lambda(self, frame: Frame, node: ast.Lambda) -> str:
        """A name that holds while the function around a lambda is the same, or else while the file is."""
        project = self._engine.project
        outer = project.function_around(frame.ref)
        if outer is None:
            project.files.uses.note("text", frame.path)
        return f"<lambda>:{node.lineno - (outer.line if outer is not None else 0)}"

    @contextmanager
    def of_another_function(self) -> Iterator[None]:
        """While another function is interpreted, which may call the same closures again."""
        called, self._called = self._called, set()
        try:
            yield
        finally:
            self._called = called

    def call(self, frame: Frame, call: ast.AST, function: Function, arguments: Arguments) -> Value:
        """What calling a closure returns; unknown for one that calls itself."""
        if function.closure_id in self._called or len(self._called) > MAX_NESTED:
            return UNKNOWN
        self._called.add(function.closure_id)
        try:
            return self._interpreted(frame, call, function, arguments)
        finally:
            self._called.discard(function.closure_id)

    def call_as_root(self, function: Function) -> Value:
        """What a closure does that somebody calls in a step, with arguments of which nothing is known."""
        node = function.node
        file = self._engine.project.file(function.ref.partition("::")[0])
        if file is None or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return UNKNOWN
        outside = Frame(file, f"{file.path}::", {}, hot=True)
        inner = replace(self._frame(outside, function), depth=0)
        parameters.bind(self._engine, inner, node, None, None, Arguments())
        return self._engine.run(inner, node)

    def _interpreted(self, frame: Frame, call: ast.AST, function: Function, arguments: Arguments) -> Value:
        engine, node = self._engine, function.node
        bound = (function.bound,) if function.bound is not None else ()
        arguments = Arguments(
            (*function.partial, *bound, *arguments.positional),
            {**dict(function.partial_keywords), **arguments.keywords},
            arguments.open,
        )
        inner = self._frame(frame, function)
        if frame.hot and function.ref != frame.ref:
            engine.note_call(frame, call, function.ref, getattr(node, "lineno", 1))
        if isinstance(node, ast.Lambda):
            parameters.bind_lambda(engine, inner, node, arguments)
            return engine.evaluate(inner, node.body)
        assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        parameters.bind(engine, inner, node, None, None, arguments)
        return engine.run(inner, node)

    def _frame(self, frame: Frame, function: Function) -> Frame:
        closure = function.closure or {}
        own = function.ref.startswith(frame.path + "::")
        file = None if own else self._engine.project.file(function.ref.partition("::")[0])
        return Frame(
            file or frame.file,
            function.ref,
            self._environment(frame, function, closure),
            frame.hot,
            max(frame.depth, 1),
            frame.owner,
            closure.get("self"),
            [*frame.guards, FIRST_STEP] if frame.lazy and is_filled_here(self._engine, frame) else list(frame.guards),
            frame.unlikely,
            out_of_scope=frame.out_of_scope,
            compile_tests=list(frame.compile_tests),
            level=frame.level,
            cells=function.ref.rpartition(".")[0] if function.kept else None,
        )

    @staticmethod
    def _environment(frame: Frame, function: Function, closure: Mapping[str, Value]) -> dict[str, Value]:
        """The names that a closure sees; containers among them outlive the step if it does."""
        if not (function.kept and frame.hot):
            return dict(closure)
        outer = function.ref.rpartition(".")[0]
        return {
            name: held_in(value, f"{outer}.{name}") if isinstance(value, (Sequence, Dict)) else value
            for name, value in closure.items()
        }
