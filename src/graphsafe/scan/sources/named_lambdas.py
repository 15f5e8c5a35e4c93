"""Reads `run = lambda: step(x)` as `def run(): return step(x)`, so that the rules about graphs need to know only
functions."""

from __future__ import annotations

import ast
import operator
from typing import Any

from graphsafe.scan.sources.node_memo import memoize_on_node


@memoize_on_node
def as_functions(tree: ast.Module) -> ast.Module:
    """Return the file's tree, or a copy with functions instead of lambdas that have a name. All nodes keep their
    positions."""
    copied = _copied(tree)
    assert isinstance(copied, ast.Module)
    return copied


def _copied(value: Any) -> Any:
    """Return a statement or a list of statements with functions in it. Statements around a new function are copied
    without the memo that node_memo.py stores in a node. Expressions contain no statements, so they stay as they are."""
    if isinstance(value, list):
        copies = [_copied(one) for one in value]
        return value if all(map(operator.is_, copies, value)) else copies
    if isinstance(value, ast.Assign):
        return _function(value) or value
    if not isinstance(value, (ast.mod, ast.stmt, ast.excepthandler, ast.match_case)):
        return value
    parts = {name: (part, _copied(part)) for name, part in ast.iter_fields(value)}
    if all(part is copied for part, copied in parts.values()):
        return value
    return ast.copy_location(type(value)(**{name: copied for name, (_, copied) in parts.items()}), value)


def _function(made: ast.Assign) -> ast.FunctionDef | None:
    target = made.targets[0] if len(made.targets) == 1 else None
    if not isinstance(target, ast.Name) or not isinstance(made.value, ast.Lambda):
        return None
    returned = ast.copy_location(ast.Return(made.value.body), made)
    return ast.copy_location(ast.FunctionDef(target.id, made.value.args, [returned], [], None, None), made)
