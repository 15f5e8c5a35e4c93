"""Methods that other methods of the same object call. A method runs as often as its callers do."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence

from graphsafe.scan.execution.frame import Engine
from graphsafe.scan.hazards.graph_syntax import LOOPS, Function, calls_in
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.index import FileIndex, FunctionFacts, dotted


def own_callers(engine: Engine, file: FileIndex, facts: FunctionFacts) -> Mapping[str, Function]:
    """Return the other methods of the same class that call a method, by their qualified names."""
    own = f"self.{facts.name.rpartition('.')[2]}"
    found: dict[str, Function] = {}
    for one in file.functions.values() if facts.owner is not None else ():
        if one.owner == facts.owner and one.name != facts.name:
            node = engine.project.function_node(f"{file.path}::{one.name}")
            if node is not None and any(dotted(call.func) == own for call in inside(node, ast.Call)):
                found[one.name] = node
    return found


def calls_in_loop(callers: Iterable[Function], method: str, kinds: Sequence[type[ast.stmt]]) -> bool:
    """Return whether a loop of one of these kinds calls a method of `self`."""
    loops = [loop for one in callers for kind in kinds for loop in inside(one, kind)]
    return any(dotted(call.func) == f"self.{method}" for call in calls_in(loops))


def runs_before_loops(engine: Engine, file: FileIndex, facts: FunctionFacts, depth: int = 3) -> bool:
    """Return whether a method is a part of whole runs: other methods of the same object call it, all of them outside
    loops. Each of these methods has loops of its own, in which the steps are, or is itself such a part."""
    callers = own_callers(engine, file, facts) if depth > 0 else {}
    if not callers or calls_in_loop(callers.values(), facts.name.rpartition(".")[2], LOOPS):
        return False
    return all(
        any(inside(node, kind) for kind in LOOPS) or runs_before_loops(engine, file, file.functions[name], depth - 1)
        for name, node in callers.items()
    )
