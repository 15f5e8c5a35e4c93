"""Finds functions that rebind a name of the module, or of an enclosing function, after a capture has read it: `global
hidden; hidden = torch.zeros(n)`. The graph keeps using the old tensor or number. The same holds for a number in a dict
that these functions share: `state["scale"] = scale`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from graphsafe.scan.hazards.graph_syntax import (
    Function,
    Line,
    calls_in,
    captures_in,
    head,
    is_number,
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
    shared = {name: _shared(function) for name, function in functions.items() if capturing and name not in capturing}
    known = [_read(one, functions) for one in capturing.items()] if any(shared.values()) else []
    for name, names in shared.items():
        for makers, read in known:
            if functions[name] not in makers:
                yield from _rebound(found, name, functions[name], names & read)


def _shared(function: Function) -> set[str]:
    """Return the names of the module or of enclosing functions that a function binds, and the entries that it puts into
    dicts there."""
    return {one for node in _declarations(function) for one in node.names} | _entries_put(function)


def _declarations(function: Function) -> Sequence[ast.Global | ast.Nonlocal]:
    return [*own(function, ast.Global), *own(function, ast.Nonlocal)]


def _entries_put(function: Function) -> set[str]:
    """Return the entries that a function puts into dicts of enclosing functions or of the module: `state['scale']`."""
    targets = [one for node in own(function, ast.Assign) for one in node.targets if isinstance(one, ast.Subscript)]
    return {text for text in map(place, targets) if text is not None} - _of(own_names(function), targets)


def _of(names: set[str], entries: Sequence[ast.Subscript]) -> set[str]:
    """Return the entries of the dicts with these names."""
    return {text for text in map(place, entries) if text is not None and head(text) in names}


def _read(capturing: tuple[str, Function], functions: Mapping[str, Function]) -> tuple[Sequence[Function], set[str]]:
    """Return the functions that run before a capture ends, and the outer names and the entries of dicts that the
    captured code reads."""
    name, function = capturing
    blocks = captures_in(function)
    before = [function, *_called(calls_in([function]), name, functions)]
    captured = _called([call for block in blocks for call in calls_in(block.body)], name, functions)
    read: set[str] = set()
    for code, local in [
        *((block, own_names(function)) for block in blocks),
        *((one, own_names(one)) for one in captured),
    ]:
        names = {one.id for part in code.body for one in inside(part, ast.Name) if isinstance(one.ctx, ast.Load)}
        entries = [one for part in code.body for one in inside(part, ast.Subscript) if isinstance(one.ctx, ast.Load)]
        read |= (names - local) | ({*filter(None, map(place, entries))} - _of(local, entries))
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
    """Return whether a line binds a name or an entry of a dict to a number: `scale = 1.0`, `state = {"scale": 1.0}`."""
    made = [pair for node in inside(found.tree, ast.Assign) for pair in bindings(node)]
    values = [value for target, value in made if place(target) == name]
    for target, value in made:
        if isinstance(value, ast.Dict) and place(target) == head(name):
            values += [one for key, one in zip(value.keys, value.values, strict=True) if _entry(target, key) == name]
    return any(map(is_number, values))


def _entry(table: ast.expr, key: ast.expr | None) -> str | None:
    return None if key is None else place(ast.Subscript(table, key, ast.Load()))
