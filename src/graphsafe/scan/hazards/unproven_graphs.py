"""Finds graphs that are captured and never replayed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphsafe.scan.hazards.graph_syntax import Function, is_capture
from graphsafe.scan.hazards.graph_tensors import Tables
from graphsafe.scan.symbols.index import GRAPH_ENDS, dotted


def lines(found: Tables) -> Iterator[tuple[str, str, ast.expr]]:
    """Yield each unproven graph, as function, kind and expression."""
    for name, function, _ in found.functions:
        for item in _never_replayed(function):
            yield name, "never-replayed", item


def _never_replayed(function: Function) -> Iterator[ast.expr]:
    """Yield the captures of graphs that a function makes and never uses again."""
    nodes = [*ast.walk(function)]
    made = {
        target.id
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        for target in node.targets
        # `graph = self.graphs[key] = CUDAGraph()` is found again under its other name.
        if all(isinstance(one, ast.Name) for one in node.targets)
        and isinstance(target, ast.Name)
        and (dotted(node.value.func) or "").endswith(GRAPH_ENDS)
    }
    for item in [item for node in nodes if isinstance(node, (ast.With, ast.AsyncWith)) for item in node.items]:
        call = item.context_expr
        if not made or not is_capture(item) or not isinstance(call, ast.Call) or not call.args:
            continue
        graph = call.args[0]
        if isinstance(graph, ast.Name) and graph.id in made:
            named = [node for node in nodes if isinstance(node, ast.Name) and node.id == graph.id]
            if sum(isinstance(node.ctx, ast.Load) for node in named) == 1:
                yield call
