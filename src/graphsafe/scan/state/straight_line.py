"""The lines of a function that run in every call of the function."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.sources.node_memo import inside, memoize_on_node, source_text
from graphsafe.scan.state.replaced_values import mentions
from graphsafe.scan.symbols.blocks import Definition, statements_within

_SOMETIMES = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
"Expressions with a part that may not run, or that may run more than once."


Decided = frozenset[tuple[int, bool]]
"The lines of `if` statements, each with the branch that this call certainly takes."


def contains(frame: Frame, node: ast.AST) -> bool:
    """Return whether a hot line runs in every call of its function."""
    if not frame.hot or frame.node is None or frame.inlined or frame.step_loops or frame.unlikely or frame.guard:
        return False
    return getattr(node, "lineno", 0) in _lines(frame.node, frozenset(frame.decided))


def is_set_before(frame: Frame, node: ast.AST, text: str) -> bool:
    """Return whether an earlier line of the same call has certainly set the attribute `text`. The line may be in the
    same branch: `if x is not None: self.h = f(x); y = self.h`."""
    if not frame.hot or frame.node is None or frame.inlined or frame.step_loops:
        return False
    if not text.startswith("self."):
        return False
    line = getattr(node, "lineno", 0)
    return any(first < line <= last for first, last in _assignments(frame.node).get(text, ()))


def continues(frame: Frame, node: ast.AST, text: str) -> bool:
    """Return whether an assignment to `text` reads the value that the same call assigned to `text` before."""
    reads = isinstance(node, ast.AugAssign) or (isinstance(node, ast.Assign) and mentions(node.value, text))
    return reads and is_set_before(frame, node, text)


@memoize_on_node
def _assignments(function: Definition) -> Mapping[str, Sequence[tuple[int, int]]]:
    """Map each attribute to pairs of lines. After the first line of a pair and up to the second, a call has set the
    attribute."""
    found: dict[str, list[tuple[int, int]]] = {}
    _add_assignments(function.body, function.end_lineno or 0, found)
    return found


def _add_assignments(body: Sequence[ast.stmt], end: int, found: dict[str, list[tuple[int, int]]]) -> set[str]:
    """Add the assignments in a block, whose lines run up to `end`. Return the attributes that the block always sets."""
    set_here: set[str] = set()
    for statement in body:
        new: set[str] = set()
        if isinstance(statement, ast.Assign):
            new = {source_text(one) for one in statement.targets if isinstance(one, ast.Attribute)}
            new = {text for text in new if not mentions(statement.value, text)}
        elif isinstance(statement, (ast.With, ast.AsyncWith)):
            new = _add_assignments(statement.body, end, found)
        elif not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            blocks = [block for name in ("body", "orelse") if (block := getattr(statement, name, None))]
            blocks += [handler.body for handler in getattr(statement, "handlers", ())]
            sets = [_add_assignments(block, block[-1].end_lineno or end, found) for block in blocks]
            new = set.intersection(*sets) if isinstance(statement, ast.If) and len(sets) > 1 else new
        for text in new:
            found.setdefault(text, []).append((statement.end_lineno or statement.lineno, end))
        set_here |= new
    return set_here


@memoize_on_node
def _lines(function: Definition, decided: Decided) -> frozenset[int]:
    found: set[int] = set()
    _add_lines(function.body, decided, found)
    return frozenset(found)


def _add_lines(body: Sequence[ast.stmt], decided: Decided, found: set[int]) -> bool:
    """Add the lines of a block. Return False if the function may return in it."""
    for statement in body:
        runs_on = True
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            for item in statement.items:
                _add_expression(item.context_expr, found)
            runs_on = _add_lines(statement.body, decided, found)
        elif isinstance(statement, ast.Try):
            # If the body fails and is caught, only a part of it has run.
            runs_on = not any(isinstance(inner, ast.Return) for inner in statements_within(statement))
            if not statement.handlers:
                _add_lines([*statement.body, *statement.orelse], decided, found)
            _add_lines(statement.finalbody, decided, found)
        elif isinstance(statement, ast.If) and (statement.lineno, True) in decided:
            runs_on = _add_lines(statement.body, decided, found)
        elif isinstance(statement, ast.If) and (statement.lineno, False) in decided:
            runs_on = _add_lines(statement.orelse, decided, found)
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
