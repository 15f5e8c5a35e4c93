"""Copies of syntax trees in which some nodes are replaced. All other nodes are shared with the old tree."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any, TypeVar

Node = TypeVar("Node", bound=ast.AST)


def moved(code: Node, to: ast.AST) -> Node:
    """Give a node and all nodes in it the position of another node. Return the node."""
    for inner in ast.walk(code):
        ast.copy_location(inner, to)
    return code


def with_changes(value: Any, change: Callable[[ast.AST], ast.AST | None]) -> Any:
    """Return a node, or a list of nodes, with other nodes in it. `change` returns the new node for a node, or None if
    the node stays. Nodes around new nodes are copied, without the memo that node_memo.py stores in a node. If nothing
    changes, return the value itself."""
    if isinstance(value, list):
        copies = [with_changes(one, change) for one in value]
        return value if all(map(operator.is_, copies, value)) else copies
    if not isinstance(value, ast.AST):
        return value
    new = change(value)
    if new is not None:
        return new
    parts = {name: (part, with_changes(part, change)) for name, part in ast.iter_fields(value)}
    if all(part is copied for part, copied in parts.values()):
        return value
    return ast.copy_location(type(value)(**{name: copied for name, (_, copied) in parts.items()}), value)
