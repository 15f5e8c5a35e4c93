"""Attributes that a constructor has not assigned yet. They have the value from the class body."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from graphsafe.scan.domain.values import Instance, Unknown, Value
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.interpreter.attributes import CONSTRUCTORS
from graphsafe.scan.sources.node_memo import inside, memoize_on_node


def before_assignment(frame: Frame, node: ast.AST, owner: Instance, name: str) -> Value | None:
    """Return the value of `self.name` in a constructor that has not assigned it yet: `self.table = self.table.to(d)`.

    Return None in any other method, and if another constructor may have assigned the attribute before.
    """
    if frame.node is None or frame.node.name not in CONSTRUCTORS or owner is not frame.self_value:
        return None
    assigned = _assigned(frame.node).get(name)
    if assigned is None or getattr(node, "lineno", assigned + 1) > assigned:
        return None
    for base in frame.project.mro(owner.ref):
        facts = frame.project.class_facts(base) if "::" in base else None
        writers = facts.writers.get(name, ()) if facts is not None else ()
        if any(method in CONSTRUCTORS and f"{base}.{method}" != frame.ref for method in writers):
            return None
    value = frame.attributes.of_class(owner.ref, name)
    return None if type(value) is Unknown else value


@memoize_on_node
def _assigned(constructor: ast.FunctionDef | ast.AsyncFunctionDef) -> Mapping[str, int]:
    """Map each attribute of the receiver to the last line of the statement that first assigns it."""
    receiver = constructor.args.args[0].arg if constructor.args.args else ""
    found: dict[str, int] = {}
    for statement in inside(constructor, ast.Assign):
        for target in statement.targets:
            for part in inside(target, ast.Attribute):
                if isinstance(part.value, ast.Name) and part.value.id == receiver:
                    last = statement.end_lineno or statement.lineno
                    found[part.attr] = min(last, found.get(part.attr, last))
    return found
