"""Finds graphs that each iteration of a loop captures anew, for one replay."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphsafe.scan.hazards.graph_keys import Functions, capturing_in
from graphsafe.scan.hazards.graph_syntax import (
    LOOPS,
    Function,
    Line,
    called_name,
    calls_in,
    is_capture,
    is_plain_replay,
    loop_around,
    parents_in,
)
from graphsafe.scan.hazards.graph_tensors import Tables


def lines(found: Tables) -> Iterator[Line]:
    functions = {name: node for name, node, _ in found.functions}
    capturing = capturing_in(functions)
    for name, function in functions.items() if capturing else ():
        yield from _in_each_round(name, function, capturing)


def _in_each_round(name: str, function: Function, capturing: Functions) -> Iterator[Line]:
    """Yield captures that each iteration of a loop makes for its own replay."""
    parents = parents_in(function)
    for loop in [node for node in parents if isinstance(node, LOOPS)]:
        for statement in loop.body:
            made = _made_here(statement, capturing)
            if made is None:
                continue
            later = loop.body[loop.body.index(statement) + 1 :]
            replays = [call for call in calls_in([statement, *later]) if is_plain_replay(call)]
            if any(loop_around(call, parents) is loop for call in replays):
                yield Line(name, "captured-again", made, ast.unparse(made))


def _made_here(statement: ast.stmt, capturing: Functions) -> ast.expr | None:
    """Return the capture that a statement makes unconditionally: a call, or the `torch.cuda.graph(…)` of a block."""
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        item = next(filter(is_capture, statement.items), None)
        return item.context_expr if item is not None else None
    value = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
    return value if isinstance(value, ast.Call) and called_name(value) in capturing else None
