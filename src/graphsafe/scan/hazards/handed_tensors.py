"""Tensors that code passes to a helper which captures its arguments: `graph, out = capture(model, ids)`.

The graph reads the memory of these arguments. So the caller's tensors (its local names, or attributes of its object)
are inputs of the graph.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set

from graphsafe.scan.hazards.graph_syntax import (
    Function,
    calls_in,
    captures_in,
    loop_around,
    own,
    parents_in,
    place,
    stored_names,
)
from graphsafe.scan.hazards.graph_tensors import GraphTensors, Tables, note_code, note_uses
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.symbols.blocks import matched
from graphsafe.scan.symbols.index import dotted, elements

Helpers = Mapping[str, Function]
"Name in the code -> a function that captures, or the constructor of a class that captures."


def own_helpers(found: Tables) -> Helpers:
    """Return the helpers that a file defines."""
    return {
        plain: node
        for name, node in found.by_name.items()
        if "." not in (plain := name.removesuffix(".__init__")) and captures_in(node)
    }


def note(found: Tables, helpers: Helpers) -> None:
    """Add a table for each function or class that passes tensors or its own functions to a helper."""
    classes = {node.name: node for node in found.tree.body if isinstance(node, ast.ClassDef)}
    handed: dict[str, list[tuple[ast.expr, ast.Call]]] = {}
    for name, function, _ in found.functions if helpers else ():
        for value, call in _handed(function, helpers):
            of_object = any(node.id == "self" for node in inside(value, ast.Name))
            handed.setdefault(name.rpartition(".")[0] if of_object else name, []).append((value, call))
    functions = found.by_name
    for owner, given in handed.items():
        scope = classes.get(owner) or functions.get(owner)
        if scope is None:
            continue
        table = _table(scope, given, helpers)
        note_uses(table, scope, owner)
        if table.replaying:
            found.all.append(table)
            for position, (name, function, known) in enumerate(found.functions):
                if name in table.functions:
                    found.functions[position] = name, function, [*known, table]


def _table(scope: Function | ast.ClassDef, given: list[tuple[ast.expr, ast.Call]], helpers: Helpers) -> GraphTensors:
    known = {node.name: node for node in inside(scope, ast.FunctionDef) if node is not scope}
    texts = {text for value, _ in given if (text := place(value)) is not None}
    functions = [known[name] for text in sorted(texts) if (name := text.removeprefix("self.")) in known]
    table = GraphTensors(scope, texts - {text for text in texts if text.removeprefix("self.") in known})
    table.handing += [call for _, call in given]
    table.captured += functions
    table.outputs.update(name for call in table.handing for name in _results(scope, call, helpers))
    note_code(table, scope, [*functions, *(value for value, _ in given if isinstance(value, ast.Lambda))])
    return table


def _results(scope: Function | ast.ClassDef, call: ast.Call, helpers: Helpers) -> Iterator[str]:
    """Yield the names to which the graph's outputs are assigned: `graph, self.y = capture(self.step)`."""
    helper = helpers[dotted(call.func) or ""]
    bound = {name for block in captures_in(helper) for name in stored_names(inside(block, ast.Name))}
    for made in [node for node in inside(scope, ast.Assign) if node.value is call]:
        for returned in [node.value for node in own(helper, ast.Return) if node.value is not None]:
            targets, values = elements(made.targets[0]), elements(returned)
            for target, value in zip(targets, values, strict=False) if len(targets) == len(values) else ():
                if isinstance(value, ast.Name) and value.id in bound:
                    yield from filter(None, map(place, elements(target)))


def _handed(function: Function, helpers: Helpers) -> Iterator[tuple[ast.expr, ast.Call]]:
    """Yield the tensors and functions that a function, outside its loops, passes to helpers. Each comes with the
    call."""
    parents = parents_in(function)
    aliases = {place(node.value) for node in own(function, ast.Assign)}
    for call in own(function, ast.Call):
        helper = helpers.get(dotted(call.func) or "")
        if helper is None or helper is function or loop_around(call, parents):
            continue
        for value in _given(call, helper):
            for one in elements(value):
                text = place(one)
                if isinstance(one, ast.Lambda) or (text is not None and text not in aliases and text.count(".") < 2):
                    yield one, call


def _given(call: ast.Call, helper: Function) -> Iterator[ast.expr]:
    """Yield the arguments that the captured code of a helper reads or calls. The arguments in `*args` are yielded
    separately."""
    read = _captured(helper)
    yield from (value for value, parameter in matched(call, helper) if parameter.arg in read)
    if helper.args.vararg is not None and helper.args.vararg.arg in read:
        taken = len([*helper.args.posonlyargs, *helper.args.args]) - (helper.name == "__init__")
        yield from call.args[taken:]


@memoize_on_node
def _captured(helper: ast.AST) -> Set[str]:
    """Return the parameters that the captured code of a helper reads or calls, also in functions inside the helper."""
    assert isinstance(helper, (ast.FunctionDef, ast.AsyncFunctionDef))
    nested = {node.name: node for node in inside(helper, ast.FunctionDef) if node is not helper}
    parts: list[ast.AST] = [*captures_in(helper)]
    seen: set[str] = set()
    for part in parts:
        called = {dotted(call.func) or "" for call in calls_in([part])} & nested.keys() - seen
        seen |= called
        parts += [nested[name] for name in called]
    names = [node for part in parts for node in inside(part, ast.Name)]
    stored = stored_names(own(helper, ast.Name))
    read = {node.id for node in names if isinstance(node.ctx, ast.Load)}
    given = {one.arg for one in inside(helper.args, ast.arg)}
    return frozenset(given & read - stored)
