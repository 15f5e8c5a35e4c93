"""Entries of a caller's dict that grow step by step, as caches of keys do:

if "key" in state:
    k = torch.cat([state["key"].view(shape), k], dim=1)
state["key"] = k.view(shape)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from graphsafe.scan.domain.values import Value, as_tensor, confidence_of
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.sources.node_memo import inside, memoize_on_node, source_text
from graphsafe.scan.state.provenance import all_bound
from graphsafe.scan.state.replaced_values import CONVERSIONS, JOINING
from graphsafe.scan.symbols.blocks import Definition, with_defaults
from graphsafe.scan.symbols.index import dotted, elements, is_none
from graphsafe.scan.symbols.project_files import Files

_VIEWS = CONVERSIONS | {"transpose", "permute"}


def put(frame: Frame, target: ast.Subscript, value: Value) -> None:
    """Emit events for an assignment to an entry that the next step joins with its own tensor."""
    tensor, certain = as_tensor(value)
    if not frame.hot or frame.node is None or tensor is None or tensor.where == "host":
        return
    text = source_text(target)
    joined = _grown(frame.node).get((text, target.lineno))
    if joined is not None:
        is_given = not isinstance(target.value, ast.Name) or _may_be_given(frame, target.value.id)
        confidence = confidence_of(tensor, certain) if is_given else "possible"
        frame.emit("Alloc", "growing", joined, confidence, expr=text)
        frame.emit("AttrWrite", "rebound", target, confidence, expr=text, attribute=text)


def _may_be_given(frame: Frame, holder: str) -> bool:
    """Return whether a caller may pass the dict, or pass the object from which the function gets the dict. If the
    parameter's default is None and no call in the project names the parameter, no caller passes it."""
    calls = (bound for bound in all_bound(frame, holder) if isinstance(bound, ast.Call))
    names = {holder, *(one.id for call in calls for one in call.args if isinstance(one, ast.Name))}
    assert frame.node is not None
    optional = {one.arg for one, default in with_defaults(frame.node) if default is not None and is_none(default)}
    return all(_is_named(frame.project.files, frame.path, name) for name in sorted(names & optional))


def _is_named(files: Files, path: str, parameter: str) -> bool:
    passed = re.compile(rf"\b{parameter}=(?!None\b|=)".encode())
    return files.table(f"passes {parameter}", lambda: files.any_contains(path, passed, parameter.encode()))


@memoize_on_node
def _grown(function: Definition) -> Mapping[tuple[str, int], ast.Call]:
    """Return the entries that grow, each with the line that assigns it and the call that joins the old value and the
    new one. A test for the entry surrounds only the call, because the first step assigns the entry too."""
    found = {}
    # Each call gets its own dict of keywords.
    made = {function.args.kwarg.arg} if function.args.kwarg is not None else set()
    made |= {
        target.id
        for one in inside(function, ast.Assign)
        for target in one.targets
        if isinstance(target, ast.Name) and (isinstance(one.value, ast.Dict) or _name(one.value) == "dict")
    }
    for test in inside(function, ast.If):
        for entry in set(_present(test.test)):
            stores = [
                one
                for one in inside(function, ast.Assign)
                if source_text(one.targets[0]) == entry and one.lineno > (test.body[-1].end_lineno or test.lineno)
            ]
            for call, name in _joins(test, entry) if entry.partition("[")[0] not in made else ():
                found.update(
                    {(entry, one.lineno): call for one in stores if source_text(_without_views(one.value)) == name}
                )
    return found


def _present(test: ast.expr) -> Iterator[str]:
    """Yield the entries that a test finds in a local dict: `state["key"]` for `"key" in state`."""
    for part in test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]:
        if isinstance(part, ast.Compare) and len(part.ops) == 1 and isinstance(part.ops[0], ast.In):
            holder = part.comparators[0]
            if isinstance(part.left, ast.Constant) and isinstance(holder, ast.Name):
                yield f"{holder.id}[{source_text(part.left)}]"


def _joins(test: ast.If, entry: str) -> Iterator[tuple[ast.Call, str]]:
    """Yield the calls in a branch that append another tensor to the entry, each with the name of the result."""
    assigned = [one for statement in test.body for one in inside(statement, ast.Assign)]
    old = {entry}
    for one in sorted(assigned, key=lambda one: one.lineno):
        name = source_text(one.targets[0])
        if source_text(_without_views(one.value)) in old:
            old.add(name)
        elif isinstance(one.value, ast.Call) and _name(one.value) in JOINING:
            parts = [part for argument in one.value.args for part in elements(argument)]
            if parts and source_text(_without_views(parts[0])) in old:
                yield one.value, name


def _without_views(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS:
        node = node.func.value
    return node


def _name(node: ast.expr) -> str:
    return (dotted(node.func) or "").rpartition(".")[2] if isinstance(node, ast.Call) else ""
