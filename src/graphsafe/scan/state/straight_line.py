"""The lines of a function that run in every call of the function."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.symbols.blocks import Definition, statements_within

_SOMETIMES = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
"Expressions with a part that may not run, or that may run more than once."


def contains(frame: Frame, node: ast.AST) -> bool:
    """Return whether a hot line runs in every call of its function."""
    if not frame.hot or frame.node is None or frame.inlined or frame.step_loops or frame.unlikely or frame.guard:
        return False
    return getattr(node, "lineno", 0) in _lines(frame.node)


@memoize_on_node
def _lines(function: Definition) -> frozenset[int]:
    found: set[int] = set()
    _add_lines(function.body, found)
    return frozenset(found)


def _add_lines(body: Sequence[ast.stmt], found: set[int]) -> bool:
    """Add the lines of a block. Return False if the function may return in it."""
    for statement in body:
        runs_on = True
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            for item in statement.items:
                _add_expression(item.context_expr, found)
            runs_on = _add_lines(statement.body, found)
        elif isinstance(statement, ast.Try):
            # If the body fails and is caught, only a part of it has run.
            runs_on = not any(isinstance(inner, ast.Return) for inner in statements_within(statement))
            if not statement.handlers:
                _add_lines([*statement.body, *statement.orelse], found)
            _add_lines(statement.finalbody, found)
        elif isinstance(statement, (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return)):
            _add_expression(statement, found)
        elif not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            runs_on = not any(isinstance(inner, ast.Return) for inner in statements_within(statement))
        if not runs_on:
            return False
    return True


def _add_expression(node: ast.expr | ast.stmt, found: set[int]) -> None:
    if not any(inside(node, kind) for kind in _SOMETIMES):
        found.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
