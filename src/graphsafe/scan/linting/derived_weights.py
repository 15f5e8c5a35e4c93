"""Finds the attributes that a method computes from other attributes of its object, such as a merged weight."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from graphsafe.scan.hazards.graph_syntax import Function, own, written
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.state.provenance import read_for_values
from graphsafe.scan.symbols.blocks import attribute_of


@memoize_on_node
def derived_by(method: Function) -> Mapping[str, frozenset[str]]:
    """Return the attributes that a method computes from other attributes of its object, each with these attributes:
    `self.merged = self.weight + self.b @ self.a`, or `self.merged.copy_(…)` with such a value."""
    found: dict[str, frozenset[str]] = {}
    pairs = [(made, [made.value]) for made in own(method, ast.Assign)]
    for node, given in [*pairs, *((call, call.args[:1]) for call in own(method, ast.Call))]:
        target = written(node)
        if target is None or not given or attribute_of(target, "self") is None or not isinstance(target, ast.Attribute):
            continue
        read = [one for one in read_for_values(given[0]) if isinstance(one, ast.Attribute)]
        called = {attribute_of(call.func, "self") for call in inside(given[0], ast.Call)}
        sources = {text for one in read if (text := attribute_of(one, "self")) is not None} - {target.attr, *called}
        if sources and any(isinstance(one, (ast.BinOp, ast.Call)) for one in ast.walk(given[0])):
            found[target.attr] = frozenset(sources)
    return found
