"""Replaces local names by the attributes that they stand for: `v["ids"]` by `self.buffers["ids"]` after
`v = self.buffers`.

Methods of one class may have different local names for the same tensors.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping
from typing import Any

from graphsafe.scan.hazards.graph_syntax import Function, functions_in, own_nodes


def spelled_out(tree: ast.Module) -> ast.Module:
    """Return a copy of the file's tree with `self.x` in place of each local name that stands for it. All nodes keep
    their positions."""
    if not any(map(_names, functions_in(tree))):
        return tree
    copied = _copied(tree)
    assert isinstance(copied, ast.Module)
    for function in functions_in(copied):
        names = _names(function)
        for parent, child in [*own_nodes(function)] if names else ():
            _replace(parent, child, names)
    return copied


def _copied(value: Any) -> Any:
    """Return a copy of a node without the memo that node_memo.py stores in it."""
    if isinstance(value, list):
        return [*map(_copied, value)]
    if not isinstance(value, ast.AST):
        return value
    return ast.copy_location(type(value)(**{name: _copied(part) for name, part in ast.iter_fields(value)}), value)


def _names(function: Function) -> Mapping[str, ast.Attribute]:
    """Return the local names that a function binds once, to an attribute of `self` that the function never assigns."""
    nodes = [node for _, node in own_nodes(function)]
    stored = Counter(node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    bound = {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    return {
        node.targets[0].id: node.value
        for node in nodes
        if isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0], ast.Name)
        and stored[node.targets[0].id] == 1
        and isinstance(node.value, ast.Attribute)
        and isinstance(node.value.value, ast.Name)
        and node.value.value.id == "self"
        and node.value.attr not in bound
    }


def _replace(parent: ast.AST, child: ast.AST, names: Mapping[str, ast.Attribute]) -> None:
    """Replace a name by the attribute, if the code uses an attribute or an entry of the name."""
    if not isinstance(parent, (ast.Attribute, ast.Subscript)) or parent.value is not child:
        return
    if isinstance(child, ast.Name) and child.id in names:
        meant = names[child.id]
        owner = ast.copy_location(ast.Name("self", ast.Load()), child)
        parent.value = ast.copy_location(ast.Attribute(owner, meant.attr, ast.Load()), child)
