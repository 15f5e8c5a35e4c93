"""The functions that capture a graph, by the names that the code of each class uses for them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set

from graphsafe.scan.hazards.graph_syntax import Function, called_name, calls_in, captures_in, place
from graphsafe.scan.hazards.graph_tensors import Tables
from graphsafe.scan.hazards.owners.own_methods import class_of, meant_in
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.index import dotted

Functions = Mapping[str, Function]
_KINDS = ("Event", "Stream")
"Classes of torch whose objects have a method `record` or `synchronize`, as a runner may have."


def with_captures(found: Tables) -> Iterator[tuple[str, Function, Functions]]:
    """Yield all functions of a file that captures. Each comes with the functions that it may call and that lead to a
    capture, directly or through further calls. These functions are listed by the last parts of their names."""
    functions = {name: node for name, node, _ in found.functions}
    of_class: dict[str, Functions] = {}
    for name, function in functions.items() if any(map(captures_in, functions.values())) else ():
        cls = class_of(found.tree, name)
        if cls not in of_class:
            by_last = {one.rpartition(".")[2]: node for one, node in reversed(functions.items())}
            of_class[cls] = _capturing_in(
                {**by_last, **meant_in(found.tree, functions.items(), cls)}, _events(found.tree)
            )
        yield name, function, of_class[cls]


def _capturing_in(by_last: Functions, events: Set[str]) -> Functions:
    found = {last: node for last, node in by_last.items() if captures_in(node)}
    while True:
        more = {
            last: node
            for last, node in by_last.items()
            if last not in found
            and any(called_name(call) in found and _object(call) not in events for call in calls_in([node]))
        }
        if not more:
            return found
        found |= more


def _object(call: ast.Call) -> str | None:
    """Return the object whose method is called: `self.free` for `self.free[slot].record()`."""
    node = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    while isinstance(node, ast.Subscript):
        node = node.value
    return place(node)


def _events(tree: ast.Module) -> Set[str]:
    """Return the names in a file that only hold events and streams of torch, or lists and dictionaries of them."""
    events, others = set[str](), set[str]()
    assigned = [(target, node.value) for node in inside(tree, ast.Assign) for target in node.targets]
    declared = [(node.target, node.value) for node in inside(tree, ast.AnnAssign)]
    for target, value in (*assigned, *declared):
        name = place(target)
        if name is not None and value is not None:
            (events if _holds_events(value) else others).add(name)
    for loop in inside(tree, ast.For):
        name = place(loop.target)
        if name is not None:
            (events if place(loop.iter) in events else others).add(name)
    return events - others


def _holds_events(value: ast.expr) -> bool:
    if isinstance(value, (ast.ListComp, ast.DictComp)):
        return _holds_events(value.elt if isinstance(value, ast.ListComp) else value.value)
    if isinstance(value, (ast.List, ast.Tuple)):
        return bool(value.elts) and all(map(_holds_events, value.elts))
    return isinstance(value, ast.Call) and (dotted(value.func) or "").rpartition(".")[2] in _KINDS
