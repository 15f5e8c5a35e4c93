"""Checks the call chain of a prediction that scan has made. If a line of the chain did not run, searches for another
chain in which all lines ran.

Several targets of a file may share a function. Scan gives one chain of calls to that function. The chain may start in
the step of any of these targets.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from graphsafe.capture.shared.classify import Function, NamedFunction, contains, functions_of
from graphsafe.report.model import CallSite, Finding

Ran = Mapping[str, Set[int]]
"File -> the lines that ran."


def with_chain_that_ran(prediction: Finding, ran: Ran) -> Finding:
    """Return the prediction with a call chain of lines that ran. The chain is empty if none is certain."""
    chain = prediction.call_chain
    if all(call.line in ran.get(call.path, ()) for call in chain):
        return prediction
    return replace(prediction, call_chain=_calls_to(prediction.location.path, prediction.location.line, ran))


def _calls_to(path: str, line: int, ran: Ran) -> tuple[CallSite, ...]:
    """Return the chain of calls that leads to a line. The search goes from the function around the line to its first
    caller on a line that ran, and so on outwards. Callers are found by the function's name. The chain is empty if a
    name is not unique."""
    functions = ((file, function) for file in sorted(ran) for function in functions_of(file))
    running = [(file, function) for file, function in functions if body_ran(function.node, ran[file])]
    found: list[CallSite] = []
    while (callee := _innermost(path, line, running)) is not None:
        name = callee.node.name
        if sum(function.node.name == name for _, function in running) > 1:
            return ()
        calls = (
            CallSite(file, first, function.name)
            for file, function in running
            for called, first, last in _calls(function.node)
            if called == name and function is not callee and any(line in ran[file] for line in range(first, last + 1))
        )
        call = next((one for one in calls if one not in found), None)
        if call is None:
            break
        found.insert(0, call)
        path, line = call.path, call.line
    return tuple(found)


def _innermost(path: str, line: int, running: Sequence[tuple[str, NamedFunction]]) -> NamedFunction | None:
    around = [function for file, function in running if file == path and contains(function.node, line)]
    return max(around, key=lambda function: function.node.lineno, default=None)


def body_ran(function: Function, lines: Set[int]) -> bool:
    """Return whether a line of the body ran. The body runs only in a call, but the `def` line also runs outside of
    calls."""
    last = function.end_lineno or function.lineno
    return any(line in lines for line in range(function.body[0].lineno, last + 1))


@functools.lru_cache(maxsize=65_536)
def _calls(function: Function) -> Sequence[tuple[str, int, int]]:
    """Return the calls in a function's own body, in order of lines. For each call, return the last name of the called
    function, and the call's first and last line."""
    left: list[ast.AST] = list(function.body)
    found = []
    while left:
        node = left.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            found.append((called, node.lineno, node.end_lineno or node.lineno))
        left += ast.iter_child_nodes(node)
    return sorted(found, key=lambda call: call[1:])
