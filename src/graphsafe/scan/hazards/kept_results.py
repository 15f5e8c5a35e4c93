"""Results of captures that a class keeps for its replays: `self.outs[n] = out` behind the capture that made `out`.

A result that is kept in a tuple with its graph is found by kept_graphs.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set

from graphsafe.scan.hazards.graph_syntax import (
    Function,
    captures_in,
    entry,
    is_host,
    is_plain_replay,
    own_nodes,
    place,
    stored_names,
    viewed,
)
from graphsafe.scan.hazards.graph_tensors import GraphTensors, bindings
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.index import elements


def results_of(table: GraphTensors, function: Function) -> Set[str]:
    """Return the names by which one of the owner's functions knows results that every replay overwrites: `self.out`,
    `self.outs[]`, and `out` after `out = self.outs[n]`."""
    found = set(table.overwritten)
    if isinstance(table.scope, ast.ClassDef):
        found.update(text for one in table.functions.values() for text in _kept(one))
    nodes = [node for _, node in own_nodes(function)]
    stored = [node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    first = min((node.lineno for node in nodes if is_plain_replay(node)), default=0)
    # A name that is bound behind the replay, as in `out = out.clone()`, may hold something else.
    later = {name.id for name in stored if name.lineno > first > 0}
    names = [name.id for name in stored]
    taken = {
        target.id
        for node in nodes
        if isinstance(node, ast.Assign) and viewed(node.value) in found - later
        for target in node.targets
        if isinstance(target, ast.Name) and names.count(target.id) == 1
    }
    return (found - later) | taken


def _kept(function: Function) -> Iterator[str]:
    """Yield the attributes and tables in which a function keeps what its captures bind to local names."""
    for block in captures_in(function):
        end = block.end_lineno or block.lineno
        later = [node for _, node in own_nodes(function) if getattr(node, "lineno", 0) > end]
        made = {*_bound_in(block)} - stored_names(later)
        for node in later:
            for target, value in bindings(node) if isinstance(node, ast.Assign) else ():
                text = place(target) or entry(target)
                if text is not None and text.startswith("self.") and viewed(value) in made:
                    yield text


def _bound_in(block: ast.With | ast.AsyncWith) -> Iterator[str]:
    for statement in block.body:
        for node in inside(statement, ast.Assign):
            if not is_host(node.value):
                names = (part for target in node.targets for part in elements(target))
                yield from (part.id for part in names if isinstance(part, ast.Name))
