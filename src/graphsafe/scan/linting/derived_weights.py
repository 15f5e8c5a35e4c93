"""Finds the attributes that a method computes from other attributes of its object, such as a merged weight."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from graphsafe.scan.hazards.graph_syntax import Function, own, written
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.state.provenance import read_for_values
from graphsafe.scan.symbols.blocks import attribute_of
from graphsafe.scan.symbols.index import dotted


@memoize_on_node
def derived_by(method: Function) -> Mapping[str, frozenset[str]]:
    """Return the attributes that a method computes from other attributes of its object, each with these attributes:
    `self.merged = self.weight + self.b @ self.a`, or `self.merged.copy_(…)` with such a value.

    Values that a module or a constructor gives (`self.net(self.x)`, `Adam(self.parameters())`) are left out: they may
    hold the attributes instead of a copy of their values."""
    found: dict[str, frozenset[str]] = {}
    pairs = [(made, [made.value]) for made in own(method, ast.Assign)]
    for node, given in [*pairs, *((call, call.args[:1]) for call in own(method, ast.Call))]:
        name = attribute_of(written(node), "self")
        if name is None or not given:
            continue
        if not all(_computes(call.func) for call in inside(given[0], ast.Call)):
            continue
        read = [one for one in read_for_values(given[0]) if isinstance(one, ast.Attribute)]
        sources = {text for one in read if (text := attribute_of(one, "self")) is not None} - {name}
        if sources and any(isinstance(one, (ast.BinOp, ast.Call)) for one in ast.walk(given[0])):
            found[name] = frozenset(sources)
    return found


def _computes(function: ast.expr) -> bool:
    """Return whether a call computes a new tensor: `torch.mm(…)`, or a method of a value."""
    if not isinstance(function, ast.Attribute) or attribute_of(function, "self") is not None:
        return False
    name = dotted(function)
    return name is None or (name.split(".")[0] in {"self", "torch", "F"} and name.rpartition(".")[2].islower())
