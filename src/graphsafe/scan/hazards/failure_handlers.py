"""Handlers that catch the failure of a capture, and whether the program continues after them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TypeAlias

from graphsafe.scan.hazards.graph_syntax import Function, own, own_nodes
from graphsafe.scan.symbols.index import dotted

FAILURES = frozenset(("Exception", "BaseException", "RuntimeError", "AcceleratorError"))
"""Exception classes whose handlers catch a failed capture. The capture raises RuntimeError, or AcceleratorError,
torch's subclass of it."""
_EXITS = frozenset("sys.exit exit quit os._exit _exit os.abort abort".split())
"Calls that end the process."

Called: TypeAlias = Callable[[ast.Call], "Function | None"]
"""A function that returns, for a call, the function of the project that the call runs. It returns None if this is not
known."""


def catches(caught: ast.expr | None) -> bool:
    """Return whether `except caught:` catches the failure of a capture. None stands for a bare `except:`."""
    if caught is None:
        return True
    return any(ast.unparse(part).rpartition(".")[2] in FAILURES for part in getattr(caught, "elts", [caught]))


def swallows(handler: ast.ExceptHandler, function: Function | None, called: Called) -> bool:
    """Return whether the program continues after a handler of `function`.

    It does not continue if the handler, or a function that it calls, always raises or ends the process. It also does
    not continue if a later line raises because of a value that the handler stored.
    """
    return not any(_ends(inner, called) for inner in _inside(handler.body)) and (
        function is None or not _raises_later(handler, function)
    )


def _inside(body: list[ast.stmt]) -> Iterator[ast.AST]:
    return (inner for statement in body for inner in ast.walk(statement))


def _ends(node: ast.AST, called: Called) -> bool:
    if not isinstance(node, ast.Call):
        return isinstance(node, ast.Raise)
    function = None if _is_exit(node) else called(node)
    return _is_exit(node) or (function is not None and _never_returns(function))


def _is_exit(call: ast.Call) -> bool:
    return dotted(call.func) in _EXITS


def _never_returns(function: Function) -> bool:
    """Return whether a function always raises or ends the process, because its last line does so and it has no
    `return`."""
    last = function.body[-1]
    is_end = isinstance(last, ast.Raise) or (
        isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and _is_exit(last.value)
    )
    return is_end and not any(isinstance(node, (ast.Return, ast.Yield)) for _, node in own_nodes(function))


def _raises_later(handler: ast.ExceptHandler, function: Function) -> bool:
    """Return whether a line after the handler raises a value that the handler stored, or tests the stored value and
    raises: `if failure is not None: raise RuntimeError("no graph") from failure`."""
    kept = {text for inner in _inside(handler.body) for text in _kept(inner)}
    told: list[ast.stmt | ast.expr] = [*own(function, ast.Raise)]
    for branch in own(function, ast.If):
        if any(isinstance(one, ast.Raise) for one in (*branch.body, *branch.orelse)):
            told.append(branch.test)
    last = handler.end_lineno or handler.lineno
    return any(one.lineno > last and _names(one, kept) for one in told)


def _kept(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node of a handler assigns to, and the containers to which it appends."""
    if isinstance(node, ast.Assign):
        yield from map(ast.unparse, node.targets)
    elif isinstance(node, ast.AnnAssign):
        yield ast.unparse(node.target)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("append", "add"):
        yield ast.unparse(node.func.value)


def _names(node: ast.AST, kept: set[str]) -> bool:
    return any(isinstance(one, (ast.Name, ast.Attribute)) and ast.unparse(one) in kept for one in ast.walk(node))
