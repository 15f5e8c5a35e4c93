"""Coroutines that read a graph's output after an `await`. In the meantime, another task may replay the graph."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from graphsafe.scan.hazards.graph_syntax import Line, ancestors, is_plain_replay, own, parents_in, place
from graphsafe.scan.hazards.graph_tensors import GraphTensors, Tables
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.index import dotted

_SIDE_BY_SIDE = re.compile(r"(^|\.)(gather|create_task|ensure_future|start_soon|as_completed)$")
"Matches names of functions that start tasks beside one another."


def lines(found: Tables) -> Iterator[Line]:
    replaying = [(name, table) for table in found.all for name in sorted(table.replaying)]
    coroutines = [one for one in replaying if isinstance(one[1].functions[one[0]], ast.AsyncFunctionDef)]
    calls = inside(found.tree, ast.Call) if coroutines else ()
    if any(_SIDE_BY_SIDE.search(dotted(call.func) or "") for call in calls):
        for name, table in coroutines:
            yield from _in_coroutine(name, table)


def _in_coroutine(name: str, table: GraphTensors) -> Iterator[Line]:
    """Yield the first use of an output after the first `await` that follows a replay. If a lock may be held (`async
    with self.lock:`), nothing is yielded."""
    function = table.functions[name]
    parents = parents_in(function)
    replays = [*filter(is_plain_replay, own(function, ast.Call))]
    if any(isinstance(one, ast.AsyncWith) for replay in replays for one in ancestors(replay, parents)):
        return
    first = min(replay.lineno for replay in replays)
    awaits = [one.lineno for one in own(function, ast.Await) if one.lineno > first]
    again = [one.lineno for one in replays if one.lineno > first]
    for node in sorted(own(function, ast.Attribute), key=lambda one: one.lineno):
        passed = [line for line in awaits if line < node.lineno and not any(line < one < node.lineno for one in again)]
        if passed and isinstance(node.ctx, ast.Load) and place(node) in table.outputs:
            yield Line(name, "output-awaited", node, ast.unparse(node))
            return
