"""Reads `run = lambda: step(x)` as `def run(): return step(x)`, so that the rules about graphs need to know only
functions."""

from __future__ import annotations

import ast

from graphsafe.scan.sources.node_memo import memoize_on_node
from graphsafe.scan.sources.tree_copies import with_changes


@memoize_on_node
def as_functions(tree: ast.Module) -> ast.Module:
    """Return the file's tree, or a copy with functions instead of lambdas that have a name. All nodes keep their
    positions."""
    copied = with_changes(tree, _function)
    assert isinstance(copied, ast.Module)
    return copied


def _function(made: ast.AST) -> ast.FunctionDef | None:
    if not isinstance(made, ast.Assign) or not isinstance(made.value, ast.Lambda):
        return None
    target = made.targets[0]
    if len(made.targets) != 1 or not isinstance(target, ast.Name):
        return None
    returned = ast.copy_location(ast.Return(made.value.body), made)
    return ast.copy_location(ast.FunctionDef(target.id, made.value.args, [returned], [], None, None), made)
