"""Checks the call chain of a prediction that scan has made. If a line of the chain did not run, searches for another
chain in which all lines ran.

Several targets of a file may share a function. Scan gives one chain of calls to that function. The chain may start in
the step of any of these targets.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from graphsafe.capture.shared.classify import tree_of
from graphsafe.report.model import CallSite, Finding
from graphsafe.report.source import kept_by_lines

Ran = Mapping[str, Set[int]]
"File -> the lines that ran."


@dataclass(frozen=True, slots=True)
class _Function:
    name: str
    "The qualified name."
    first: int
    body: int
    "The first line of the body. The body runs only in a call, but the `def` line also runs outside of calls."
    last: int
    calls: tuple[tuple[str, int, int], ...]
    "For each call in the function: the last name of the called function, and the call's first and last line."


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
    running = [(file, function) for file in sorted(ran) for function in _functions(file) if _runs(function, ran[file])]
    found: list[CallSite] = []
    while (callee := _innermost(path, line, running)) is not None:
        name = callee.name.rpartition(".")[2]
        if sum(function.name.rpartition(".")[2] == name for _, function in running) > 1:
            return ()
        calls = (
            CallSite(file, first, function.name)
            for file, function in running
            for called, first, last in function.calls
            if called == name and function is not callee and any(line in ran[file] for line in range(first, last + 1))
        )
        call = next((one for one in calls if one not in found), None)
        if call is None:
            break
        found.insert(0, call)
        path, line = call.path, call.line
    return tuple(found)


def _innermost(path: str, line: int, running: Sequence[tuple[str, _Function]]) -> _Function | None:
    around = [function for file, function in running if file == path and function.first <= line <= function.last]
    return max(around, key=lambda function: function.first, default=None)


def _runs(function: _Function, lines: Set[int]) -> bool:
    return any(line in lines for line in range(function.body, function.last + 1))


@kept_by_lines
def _functions(lines: Sequence[str]) -> tuple[_Function, ...]:
    return tuple(_within(tree_of(lines), ""))


def _within(node: ast.AST, around: str) -> Iterator[_Function]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue
        name = around
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = f"{around}.{child.name}".lstrip(".")
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first, last = child.lineno, child.end_lineno or child.lineno
            yield _Function(name, first, child.body[0].lineno, last, tuple(_calls(child)))
        yield from _within(child, name)


def _calls(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, int, int]]:
    """Yield the calls in a function's own body, in the order of lines."""
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
    yield from sorted(found, key=lambda call: call[1:])
