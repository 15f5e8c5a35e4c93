"""Finds functions that rebind a name of the module, or of an enclosing function, after a capture has read it: `global
hidden; hidden = torch.zeros(n)`. The graph keeps using the old tensor or number."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from graphsafe.scan.hazards.graph_syntax import (
    Function,
    Line,
    calls_in,
    captures_in,
    makes_tensor,
    own,
    own_names,
    place,
)
from graphsafe.scan.hazards.graph_tensors import Tables, bindings
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.index import dotted


def lines(found: Tables) -> Iterator[Line]:
    functions = {name: node for name, node, _ in found.functions}
    capturing = {name: node for name, node in functions.items() if captures_in(node)}
    for name, function in functions.items() if capturing else ():
        declared = {one for node in _declarations(function) for one in node.names}
        if not declared or name in capturing:
            continue
        for makers, read in (_read(one, functions) for one in capturing.items()):
            if function not in makers:
                yield from _rebound(found, name, function, declared & read)


def _declarations(function: Function) -> Sequence[ast.Global | ast.Nonlocal]:
    return [*own(function, ast.Global), *own(function, ast.Nonlocal)]


def _read(capturing: tuple[str, Function], functions: Mapping[str, Function]) -> tuple[Sequence[Function], set[str]]:
    """Return the functions that run before a capture ends, and the outer names that the captured code reads."""
    name, function = capturing
    blocks = captures_in(function)
    before = [function, *_called(calls_in([function]), name, functions)]
    captured = _called([call for block in blocks for call in calls_in(block.body)], name, functions)
    read: set[str] = set()
    for code, local in [
        *((block, own_names(function)) for block in blocks),
        *((one, own_names(one)) for one in captured),
    ]:
        statements = code.body
        names = {one.id for part in statements for one in inside(part, ast.Name) if isinstance(one.ctx, ast.Load)}
        read |= names - local
    return before, read


def _called(calls: Sequence[ast.Call], caller: str, functions: Mapping[str, Function]) -> list[Function]:
    """Return the functions that these calls run, directly or through other functions. A call by a plain name runs a
    function of the caller, of a function around it, or of the module."""
    found: dict[str, Function] = {}
    waiting = [(call, caller) for call in calls]
    while waiting:
        call, scope = waiting.pop()
        called = dotted(call.func) or ""
        while called.isidentifier():
            name = f"{scope}.{called}" if scope else called
            if name in functions:
                if name not in found:
                    found[name] = functions[name]
                    waiting += [(one, name) for one in calls_in([functions[name]])]
                break
            if not scope:
                break
            scope = scope.rpartition(".")[0]
    return [*found.values()]


def _rebound(found: Tables, name: str, function: Function, names: set[str]) -> Iterator[Line]:
    for node in own(function, ast.Assign):
        for target, value in bindings(node):
            text = place(target)
            if text in names and makes_tensor(value):
                yield Line(name, "input-rebound", node, text)
            elif text in names and _is_number(found, text):
                yield Line(name, "number-changed", node, text)
    for step in own(function, ast.AugAssign):
        text = place(step.target)
        if text in names and _is_number(found, text):
            yield Line(name, "number-changed", step, text)


def _is_number(found: Tables, name: str) -> bool:
    """Return whether a line of the module, or of an enclosing function, binds a name to a number."""
    made = [pair for node in inside(found.tree, ast.Assign) for pair in bindings(node)]
    values = [value for target, value in made if place(target) == name]
    return any(isinstance(one, ast.Constant) and isinstance(one.value, (int, float)) for one in values)
