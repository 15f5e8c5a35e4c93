"""Finds a line of a running function on which the value of an expression satisfies a condition."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType, FrameType
from typing import Any

from graphsafe.capture.shared.frames import call_site
from graphsafe.report.model import CallSite
from graphsafe.run.child.frozen.origins import Scope, callee, running_in
from graphsafe.run.child.source import function_of, lines_of


def line_with(
    frames: Sequence[FrameType],
    expressions: Callable[[str], Iterable[tuple[ast.expr, int]]],
    is_meant: Callable[[Any], bool],
    *,
    also_called: bool = False,
) -> CallSite | None:
    """Return the first line of the running functions that has an expression whose value satisfies `is_meant`.

    `expressions` returns the expressions of a file with their lines. With `also_called`, the functions that the
    running functions call are searched after them.
    """
    scopes = [(frame.f_code, running_in(frame)) for frame in frames]
    if also_called:
        scopes += [inner for outer in scopes for inner in _called_in(*outer)]
    for code, scope in scopes:
        lines = lines_of(code)
        for expression, line in expressions(code.co_filename):
            if line in lines and is_meant(scope.origin(expression).value):
                return call_site(code, line)
    return None


def _called_in(code: CodeType, scope: Scope) -> Iterator[tuple[CodeType, Scope]]:
    """Yield the program's functions that a running function calls, with their scopes. `code` is the running function,
    and `scope` is its scope."""
    for call in ast.walk(function_of(code) or ast.Module([], [])):
        known = callee(scope.origin(call.func).value) if isinstance(call, ast.Call) else None
        if isinstance(call, ast.Call) and known is not None and (inner := scope.bound(call)) is not None:
            yield known[0].__code__, inner[1]
