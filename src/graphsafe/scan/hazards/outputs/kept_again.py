"""Loops that put one and the same tensor into a list after each replay: `graph.replay(); kept.append(y)`. The name `y`
may be a parameter, so that nothing else shows that it is an output. Methods that keep an output for their next call."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphsafe.scan.hazards.graph_syntax import (
    Function,
    Line,
    called_name,
    is_plain_replay,
    own,
    parents_in,
    run_together,
    shared_loop,
    stored_names,
)
from graphsafe.scan.hazards.graph_tensors import Tables
from graphsafe.scan.hazards.outputs.for_next_call import kept_for_next
from graphsafe.scan.hazards.outputs.kept_values import put
from graphsafe.scan.sources.node_memo import inside

_JOINS = frozenset(("stack", "cat", "concat", "hstack", "vstack"))
"Functions that take a list of tensors."


def lines(found: Tables) -> Iterator[Line]:
    for name, function, _ in found.functions:
        replays = [*filter(is_plain_replay, own(function, ast.Call))]
        parents = parents_in(function) if replays else {}
        for call in own(function, ast.Call) if replays else ():
            holder, held = put(call, {"append"})
            value = held[0] if held else None
            if not isinstance(value, ast.Name) or not isinstance(holder, ast.Name):
                continue
            loops = {shared_loop(call, one, parents) for one in replays if run_together(call, one, parents)} - {None}
            changed = {text for loop in loops if loop is not None for text in stored_names(ast.walk(loop))}
            if loops and not changed & {value.id, holder.id} and _joins(function, holder.id):
                yield Line(name, "output-kept", call, ast.unparse(call.func))
    yield from _for_the_next_call(found)


def _joins(function: Function, kept: str) -> bool:
    """Return whether a function joins the elements of a list into one tensor: `torch.stack(kept)`, or `[torch.stack(x)
    for x in zip(*kept)]`."""
    joining = [call for call in own(function, ast.Call) if called_name(call) in _JOINS]
    loops: list[ast.ListComp | ast.GeneratorExp] = [*own(function, ast.ListComp), *own(function, ast.GeneratorExp)]
    around = [one for one in loops if any(call in joining for call in ast.walk(one.elt))]
    return any(name.id == kept for part in (*joining, *around) for name in inside(part, ast.Name))


def _for_the_next_call(found: Tables) -> Iterator[Line]:
    """Yield the lines that keep an output in an attribute which the next call reads after its replay:
    `graph.replay(); change = self.y - self.last; self.last = self.y`."""
    for table in found.all:
        for name in sorted(table.replaying):
            function = table.functions[name]
            first = min(call.lineno for call in own(function, ast.Call) if is_plain_replay(call))
            for made in kept_for_next(function, first, table.overwritten):
                yield Line(name, "output-kept", made, ast.unparse(made.value))
