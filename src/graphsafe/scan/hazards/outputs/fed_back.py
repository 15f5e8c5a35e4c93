"""Captured lines that compute a tensor from itself and bind the result to the same name. The next replay reads the
tensor of the capture again, so the value never advances."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from graphsafe.scan.hazards.graph_syntax import (
    LOOPS,
    CaptureBlock,
    Line,
    arguments_of,
    captures_in,
    head,
    is_host,
    is_plain_replay,
    is_view_of,
    makes_tensor,
    own_nodes,
    parents_in,
    place,
    written,
)
from graphsafe.scan.hazards.graph_tensors import GraphTensors, bindings, targets
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.index import elements

_IN_PLACE = re.compile(r"cache|kv|past|pool|buf", re.I)
"Matches names of tensors that a model often writes in place and returns."


def lines(table: GraphTensors) -> Iterator[Line]:
    yield from _from_local_name(table)
    for name in sorted(table.capturing):
        for block in [block for block in captures_in(table.functions[name]) if block in table.blocks]:
            yield from _from_attribute(table, name, block)


def _from_attribute(table: GraphTensors, function: str, block: CaptureBlock) -> Iterator[Line]:
    """Yield captured lines that bind an attribute which the block has read before: `self.h = self.cell(self.x,
    self.h)`. Attributes whose old tensor has another name, or that are bound again after the block, are left out."""
    loads = [node for statement in block.body for node in inside(statement, ast.Attribute)]
    read = [(place(node), node.lineno) for node in loads if isinstance(node.ctx, ast.Load)]
    for statement in [node for node in block.body if isinstance(node, ast.Assign)]:
        values = {place(target): value for target, value in bindings(statement)}
        for text in filter(None, map(place, targets(statement))):
            value = values.get(text, statement.value)
            made = table.bound.get(text, ())
            if (
                head(text) == "self"
                and any(one == text and line <= statement.lineno for one, line in read)
                and any(makes_tensor(one.value) for _, one in made)
                and not any(where == function and one.lineno > block.lineno for where, one in made)
                and not (is_host(value) or is_view_of(value, text))
                and not ((out := written(value)) is not None and place(out) == text)
                and not _bound_within(block, statement, text)
                and not _has_another_name(table, text)
            ):
                yield Line(function, "rebound", statement, text, "possible" if _IN_PLACE.search(text) else "likely")


def _has_another_name(table: GraphTensors, text: str) -> bool:
    """Return whether code binds the tensor of an attribute to another name, or passes it to a container."""
    assigned = [node for function in table.functions.values() for node in inside(function, ast.Assign)]
    return any(text in map(place, elements(node.value)) for node in assigned)


def _from_local_name(table: GraphTensors) -> Iterator[Line]:
    """Yield captured lines that compute a local name from itself. Each replay then starts from the same old tensor."""
    for block in table.blocks:
        for statement in block.body:
            if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
                continue
            read = {text for value in arguments_of(statement.value) if (text := place(value)) is not None}
            for target in targets(statement):
                text = place(target)
                if (
                    text is None
                    or text.startswith("self.")
                    or text not in read
                    or _bound_within(block, statement, text)
                ):
                    continue
                owner = next((name for name, node in table.functions.items() if block in parents_in(node)), None)
                if owner is not None and (isinstance(target, ast.Subscript) or _is_replayed_in_loop(table, owner)):
                    yield Line(owner, "rebound", statement, text)


def _bound_within(block: ast.With | ast.AsyncWith, before: ast.Assign, text: str) -> bool:
    """Return whether the block has bound the name before this line, as in a chain of layers: `x = a(x); x = b(x)`."""
    return any(
        inner.lineno < before.lineno and text in map(place, targets(inner))
        for statement in block.body
        for inner in inside(statement, ast.Assign)
    )


def _is_replayed_in_loop(table: GraphTensors, function: str) -> bool:
    """Return whether the capturing function replays in a loop without filling the tensor to which the name referred
    before the capture."""
    loops = [node for _, node in own_nodes(table.functions[function]) if isinstance(node, LOOPS)]
    return any(
        any(map(is_plain_replay, inside(loop, ast.Call)))
        and all(node.attr != "copy_" for node in inside(loop, ast.Attribute))
        for loop in loops
    )
