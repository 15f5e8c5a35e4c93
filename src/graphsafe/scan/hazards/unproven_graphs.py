"""Finds graphs whose replays are never tested with new inputs: they are never replayed, or replayed only with the
inputs of the capture."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from graphsafe.scan.hazards.graph_syntax import (
    Function,
    arguments_of,
    captures_in,
    is_capture,
    is_plain_replay,
    own,
    place,
    with_statements,
)
from graphsafe.scan.hazards.graph_tensors import GraphTensors, Tables
from graphsafe.scan.hazards.outputs.givers import makes_graphs
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.index import GRAPH_ENDS, dotted, elements

TEST = re.compile(r"(^|\.)test_\w*$")
COMPARES = re.compile(r"(^|[._])(assert_close|assert_equal|assertEqual|assert_allclose|allclose|equal)$")

MAKES = re.compile(r"torch\.(rand\w*|ones\w*|zeros\w*|full\w*|empty\w*|arange|linspace|tensor)")


def lines(found: Tables) -> Iterator[tuple[str, str, ast.expr]]:
    """For each unproven graph, yield the function, the kind of fault and the expression."""
    for name, function, _ in found.functions:
        # Another file may import and replay a graph with a global name.
        for item in _never_replayed(function) if name else ():
            yield name, "never-replayed", item
        for call in (part for node in own(function, ast.Expr) for part in elements(node.value)):
            if isinstance(call, ast.Call) and makes_graphs(call):
                yield name, "discarded", call
    for table in found.all:
        for name in sorted(table.capturing & table.replaying):
            if TEST.search(name):
                replay = _replayed_on_old_inputs(table, table.functions[name])
                if replay is not None:
                    yield name, "same-inputs", replay


def _never_replayed(function: Function) -> Iterator[ast.expr]:
    """Yield the captures whose graph is made in this function and used only by the capture."""
    made = {
        target.id
        for node in inside(function, ast.Assign)
        if isinstance(node.value, ast.Call)
        for target in node.targets
        # After `graph = self.graphs[key] = CUDAGraph()`, other code may use the graph under its other name.
        if all(isinstance(one, ast.Name) for one in node.targets)
        and isinstance(target, ast.Name)
        and (dotted(node.value.func) or "").endswith(GRAPH_ENDS)
    }
    for item in [item for block in with_statements(function) for item in block.items]:
        call = item.context_expr
        if not made or not is_capture(item) or not isinstance(call, ast.Call) or not call.args:
            continue
        graph = call.args[0]
        if isinstance(graph, ast.Name) and graph.id in made:
            named = [node for node in inside(function, ast.Name) if node.id == graph.id]
            if sum(isinstance(node.ctx, ast.Load) for node in named) == 1:
                yield call


def _replayed_on_old_inputs(table: GraphTensors, function: Function) -> ast.Call | None:
    """Return the replay in a test that compares outputs but never writes new values into the capture's inputs. Return
    None for any other function."""
    blocks = [block for block in captures_in(function) if block in table.blocks]
    end = max((block.end_lineno or block.lineno for block in blocks), default=None)
    calls = own(function, ast.Call)
    replay = next(filter(is_plain_replay, calls), None)
    if end is None or replay is None or not any(_is_made_here(table, name) for name in table.inputs):
        return None
    later = [call for call in calls if call.lineno > end and not COMPARES.search(dotted(call.func) or "")]
    # A call that receives an input after the capture may fill it. So may a call that changes a whole model.
    given = {place(value) for call in later for value in arguments_of(call)}
    is_filled = any(line > end for name in table.inputs for _, line in table.filled.get(name, ()))
    written = any(
        isinstance(call.func, ast.Attribute) and call.func.attr.endswith("_") and not call.func.attr.endswith("__")
        for call in later
    )
    compared = [call for call in calls if COMPARES.search(dotted(call.func) or "")]
    compared_names = {text for call in compared for argument in call.args if (text := place(argument)) is not None}
    compares = any(call.lineno > replay.lineno for call in compared) and bool(compared_names & table.outputs)
    return replay if compares and not is_filled and not written and not given & table.inputs else None


def _is_made_here(table: GraphTensors, name: str) -> bool:
    """Return whether an input is a tensor that the code makes: `x = torch.randn(4, 8)`."""
    values = (made.value for _, made in table.bound.get(name, ()))
    return any(isinstance(value, ast.Call) and MAKES.fullmatch(dotted(value.func) or "") for value in values)
