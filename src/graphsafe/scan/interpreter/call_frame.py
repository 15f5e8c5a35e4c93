"""The frame of a call that is being interpreted: its names, and the conditions around the current line."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from graphsafe.scan.domain.arguments import TOP_LEVEL
from graphsafe.scan.domain.events import CompileTest
from graphsafe.scan.domain.values import Value
from graphsafe.scan.symbols.index import Module


@dataclass(slots=True)
class Frame:
    file: Module
    ref: str
    "`path::Qual.name` of the function; `path::` at module level."
    env: dict[str, Value]
    hot: bool
    "Whether what the lines do is emitted. Constructors and attribute tables are read cold."
    depth: int = 0
    "0 where the caller is not known, else 1 in hot code; in cold code how many calls led here from where that began."
    owner: str | None = None
    "The class whose body holds the function, for `super()`."
    self_value: Value | None = None
    guards: list[str] = field(default_factory=list)
    "Conditions that keep the current line out of captures."
    unlikely: int = 0
    "How many conditions around the current line make it unlikely to run in a step (an exception handler)."
    returns: list[Value] = field(default_factory=list)
    yields: list[Value] = field(default_factory=list)
    contexts: list[str] = field(default_factory=list)
    'Where tensors without a device are made: `device` inside `with torch.device("cuda")`.'
    tries: list[ast.Try] = field(default_factory=list)
    entered: list[ast.expr] = field(default_factory=list)
    "The context managers of the `with` statements around the current line, outermost first."
    node: ast.FunctionDef | ast.AsyncFunctionDef | None = None
    "The function itself; None at module level."
    lazy: list[LazyTest] = field(default_factory=list)
    "Tests of a missing attribute or key under which the current line stands."
    globals: set[str] = field(default_factory=set)
    out_of_scope: int = 0
    "How many calls lead here from the last file in scope (call_budget.py)."
    level: int = TOP_LEVEL
    "That of the call (arguments.py)."
    captured: bool = False
    "Inside a capture, or in what cold-paths name and a capture calls."
    cells: str | None = None
    "Of a closure that outlives the step: the function in which it was made, whose names are state."
    nonlocals: set[str] = field(default_factory=set)
    compile_tests: list[CompileTest] = field(default_factory=list)
    "Conditions that let only captures with, or only those without, torch.compile come to the current line."

    @property
    def guard(self) -> str | None:
        """The innermost condition that keeps the current line out of all captures."""
        if self.guards:
            return self.guards[-1]
        last = self.compile_tests[-1] if self.compile_tests else None
        # `if is_compiling():` around `if not is_compiling():`
        return last.text if last and any(test.compiling is not last.compiling for test in self.compile_tests) else None

    @property
    def compile_test(self) -> CompileTest | None:
        return self.compile_tests[-1] if self.compile_tests else None

    @property
    def conditions(self) -> tuple[int, int]:
        """How many guards and tests stand around the current line; `leave` goes back to that."""
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


@dataclass(frozen=True, slots=True)
class LazyTest:
    """`if self.plan is None:` and its kin: what follows runs on the first step only."""

    target: str
    "The source text of what is missing: `self.plan`, `self.cache`."
    line: int
    alone: bool = True
    "False where something else may lead there too: `if self.plan is None or self.size != n:`."
