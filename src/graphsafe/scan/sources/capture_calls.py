"""Reads `graph.capture_begin()` … `graph.capture_end()` as the equivalent `with` statement."""

from __future__ import annotations

import ast

BEGINS, ENDS = "capture_begin", "capture_end"


def as_blocks(tree: ast.Module) -> ast.Module:
    """Move the statements between the two calls for a graph into `with graph.capture_begin():`. Change the tree in
    place."""
    for node in [*ast.walk(tree)]:
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list) and any(_graph_of(statement, BEGINS) for statement in body):
                setattr(node, name, _joined(body))
    return tree


def is_begin(call: ast.expr) -> bool:
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == BEGINS


def _joined(body: list[ast.stmt]) -> list[ast.stmt]:
    for first, begin in enumerate(body):
        graph = _graph_of(begin, BEGINS)
        last = next((i for i, one in enumerate(body) if i > first and graph and _ends(one, graph)), None)
        if last is None:
            continue
        assert isinstance(begin, ast.Expr)
        inside = body[first + 1 : last + isinstance(body[last], ast.Try)]
        block = ast.With([ast.withitem(begin.value, None)], inside or [ast.copy_location(ast.Pass(), begin)], None)
        block = ast.copy_location(block, begin)
        block.end_lineno, block.end_col_offset = body[last].end_lineno, body[last].end_col_offset
        return [*body[:first], block, *_joined(body[last + 1 :])]
    return body


def _ends(statement: ast.stmt, graph: str) -> bool:
    """Return whether a statement ends the capture, either directly or as `try: … finally: graph.capture_end()`."""
    if isinstance(statement, ast.Try):
        return any(_graph_of(one, ENDS) == graph for one in statement.finalbody)
    return _graph_of(statement, ENDS) == graph


def _graph_of(statement: ast.AST, name: str) -> str | None:
    """Return the graph on which a statement calls the method with this name."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == name:
        return ast.unparse(call.func.value)
    return None
