"""The functions that capture a graph, by the names that the code of each class uses for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from graphsafe.scan.hazards.graph_syntax import Function, called_name, calls_in, captures_in
from graphsafe.scan.hazards.graph_tensors import Tables
from graphsafe.scan.hazards.owners.own_methods import class_of, meant_in

Functions = Mapping[str, Function]


def with_captures(found: Tables) -> Iterator[tuple[str, Function, Functions]]:
    """Yield all functions of a file that captures. Each comes with the functions that it may call and that capture,
    directly or through other calls. These functions are listed by the last parts of their names."""
    functions = {name: node for name, node, _ in found.functions}
    of_class: dict[str, Functions] = {}
    for name, function in functions.items() if any(map(captures_in, functions.values())) else ():
        cls = class_of(found.tree, name)
        if cls not in of_class:
            by_last = {one.rpartition(".")[2]: node for one, node in reversed(functions.items())}
            of_class[cls] = _capturing_in({**by_last, **meant_in(found.tree, functions.items(), cls)})
        yield name, function, of_class[cls]


def _capturing_in(by_last: Functions) -> Functions:
    found = {last: node for last, node in by_last.items() if captures_in(node)}
    while True:
        more = {
            last: node
            for last, node in by_last.items()
            if last not in found and any(called_name(call) in found for call in calls_in([node]))
        }
        if not more:
            return found
        found |= more
