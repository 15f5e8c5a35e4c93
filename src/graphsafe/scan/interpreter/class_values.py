"""Attributes that a constructor has not assigned yet. Such an attribute has the value from the class body."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from graphsafe.scan.domain.values import Instance, Unknown, Value
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.interpreter.attributes import CONSTRUCTORS
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.symbols.blocks import Definition, attribute_of


def before_assignment(frame: Frame, node: ast.AST, owner: Instance, name: str) -> Value | None:
    """Return the value that `self.name` has in a constructor before its first assignment there: `self.table =
    self.table.to(d)`.

    Return None if the method is not a constructor, or if another constructor may have assigned the attribute before.
    """
    if frame.node is None or frame.node.name not in CONSTRUCTORS or owner is not frame.self_value:
        return None
    assigned = _assigned(frame.node).get(name)
    if assigned is None or getattr(node, "lineno", assigned + 1) > assigned:
        return None
    for base, facts in frame.project.own_classes(owner.ref):
        if any(method in CONSTRUCTORS and f"{base}.{method}" != frame.ref for method in facts.writers.get(name, ())):
            return None
    value = frame.attributes.of_class(owner.ref, name)
    return None if type(value) is Unknown else value


@memoize_on_node
def _assigned(constructor: Definition) -> Mapping[str, int]:
    """Map each attribute of the receiver to the last line of the statement that first assigns it."""
    receiver = constructor.args.args[0].arg if constructor.args.args else ""
    found: dict[str, int] = {}
    for statement in inside(constructor, ast.Assign):
        for target in statement.targets:
            for name in filter(None, (attribute_of(part, receiver) for part in inside(target, ast.Attribute))):
                last = statement.end_lineno or statement.lineno
                found[name] = min(last, found.get(name, last))
    return found
