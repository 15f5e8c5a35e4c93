"""Names of callables that replay a graph: results of `make_graphed_callables`, and replaying functions that another
function has returned."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set

from graphsafe.scan.hazards.graph_syntax import Function, called_name, functions_in, is_replay, own, place
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.sources.source import parse
from graphsafe.scan.symbols.index import elements
from graphsafe.scan.symbols.project import Project

_MAKER = "make_graphed_callables"
GRAPHED = _MAKER.encode()


def graphed_names(project: Project, path: str) -> Set[str]:
    """Return the last parts of the names that stand for such callables in a file."""
    data = project.files.data(path) or b""
    is_used = GRAPHED in data or b".replay(" in data
    return _names(parse(project.files.source(path).text)) if is_used else frozenset()


@memoize_on_node
def _names(tree: ast.Module) -> Set[str]:
    functions = {function.name: function for function in functions_in(tree)}
    makers = {_MAKER}
    for name, function in functions.items():
        returned = [node.value for node in own(function, ast.Return)]
        makes = any(isinstance(value, ast.Call) and called_name(value) == _MAKER for value in returned)
        if makes or returns_replay(function):
            makers.add(name)
    found = {name.rpartition(".")[2] for name in _bound(tree, makers)}
    classes = {cls.name for cls in inside(tree, ast.ClassDef)}
    return frozenset(found - functions.keys() - classes)


def returns_replay(maker: Function) -> bool:
    """Return whether a function returns an inner function that replays a graph, perhaps in a further inner function."""
    returned = {node.value.id for node in own(maker, ast.Return) if isinstance(node.value, ast.Name)}
    return any(
        inner.name in returned and any(map(is_replay, inside(inner, ast.Call)))
        for inner in inside(maker, ast.FunctionDef)
    )


def _bound(tree: ast.Module, makers: Set[str]) -> Iterator[str]:
    for node in inside(tree, ast.Assign):
        made = node.value
        while isinstance(made, ast.Call) and isinstance(made.func, ast.Call):
            made = made.func  # `graphed(limit=2)(net)`
        if isinstance(made, ast.Call) and called_name(made) in makers:
            yield from filter(None, (place(part) for target in node.targets for part in elements(target)))
