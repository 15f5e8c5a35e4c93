"""Finds fields of metadata objects to which the capture and each step assign different new tensors.

`meta.lengths = torch.tensor(lengths, device=device)` in the method for captures gives the graph an address. The same
line in the method for steps makes another tensor, so replays continue to read the values of the capture.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from graphsafe.scan.hazards.graph_syntax import Function, own_nodes
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.index import dotted, is_none

CAPTURES = re.compile(r"(?<![a-z])captur(e|ing)(?![a-z])")
"Matches the name of a method that makes the objects for a capture."
FILLED = re.compile(
    r"((?<=\.)\w+(?= = )|\b\w+(?==t)) ?= ?torch\.(?:tensor|as_tensor|zeros|ones|empty|full|arange|from_numpy)\("
)
"Matches the assignment of a new tensor to a field. The group is the field's name."
OTHERWISE = re.compile(r"prefill|extend|dummy|warm|profil|test|eager|mixed")
"Matches the name of a method that makes the objects for steps without a graph."
MAKERS = frozenset(
    "torch.tensor torch.as_tensor torch.zeros torch.ones torch.empty torch.full torch.arange torch.from_numpy".split()
)
Field = tuple[str, str]
"The class of an object and the name of its attribute."


def has_method_for_captures(names: Iterable[str]) -> bool:
    """Return whether a file has a method for captures, judging by the names of its functions."""
    return any(CAPTURES.search(name.rpartition(".")[2]) for name in names)


def fills_twice(fields: Sequence[str]) -> bool:
    """Return whether a file assigns a new tensor to one field in two places, judging by the matches of FILLED."""
    return len({*fields}) < len(fields)


def lines(tree: ast.Module) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """Yield the lines that assign new tensors to the same field, in the method for captures and in the methods for
    steps. Each line comes as its function, its place and its source code."""
    for cls in inside(tree, ast.ClassDef):
        methods = [node for node in cls.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        captures = {node.name: _made_anew(node) for node in methods if CAPTURES.search(node.name)}
        if not any(captures.values()):
            continue
        steps = {
            node.name: _made_anew(node)
            for node in methods
            if node.name not in captures and not OTHERWISE.search(node.name)
        }
        shared = {field for made in captures.values() for field in made} & {
            field for made in steps.values() for field in made
        }
        for name, made in (*captures.items(), *steps.items()):
            yield from ((f"{cls.name}.{name}", *made[field]) for field in made if field in shared)


def _made_anew(method: Function) -> Mapping[Field, tuple[ast.expr | ast.stmt, str]]:
    """Return the fields to which a method assigns a new device tensor and no other value, for objects that the method
    makes."""
    nodes = [node for _, node in own_nodes(method)]
    assigned = [node for node in nodes if isinstance(node, ast.Assign) and len(node.targets) == 1]
    kinds = {
        node.targets[0].id: made
        for node in assigned
        if isinstance(node.targets[0], ast.Name) and (made := _constructed(node.value)) is not None
    }
    found: dict[Field, tuple[ast.expr | ast.stmt, str]] = {}
    others: set[Field] = set()
    for field, node, value, text in _given(assigned, kinds):
        if _is_new_on_device(value):
            found.setdefault(field, (node, text))
        elif not is_none(value):
            others.add(field)
    return {field: place for field, place in found.items() if field not in others}


def _given(
    assigned: Sequence[ast.Assign], kinds: Mapping[str, str]
) -> Iterator[tuple[Field, ast.expr | ast.stmt, ast.expr, str]]:
    """Yield each field that the constructor call or a later assignment sets, with the place, the value and the source
    code."""
    for node in assigned:
        target = node.targets[0]
        if isinstance(target, ast.Name) and target.id in kinds and isinstance(node.value, ast.Call):
            for word in node.value.keywords:
                if word.arg is not None:
                    yield (kinds[target.id], word.arg), word.value, word.value, f"{target.id}.{word.arg}"
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id in kinds:
            yield (kinds[target.value.id], target.attr), node, node.value, ast.unparse(target)


def _constructed(value: ast.expr) -> str | None:
    """Return the class of the object that an expression makes. A name with a capital letter counts as a class."""
    name = (dotted(value.func) or "").rpartition(".")[2] if isinstance(value, ast.Call) else ""
    return name if name[:1].isupper() else None


def _is_new_on_device(value: ast.expr) -> bool:
    """Return whether an expression makes a tensor on the device: `torch.tensor(n, device=d)`,
    `torch.zeros(n).cuda()`."""
    if not isinstance(value, ast.Call):
        return False
    if dotted(value.func) in MAKERS:
        return any(word.arg == "device" and _is_device(word.value) for word in value.keywords)
    function = value.func
    if not isinstance(function, ast.Attribute) or function.attr not in ("to", "cuda"):
        return False
    made = isinstance(function.value, ast.Call) and dotted(function.value.func) in MAKERS
    given = [*value.args[:1], *(word.value for word in value.keywords if word.arg == "device")]
    return made and (function.attr == "cuda" or any("device" in ast.unparse(one) and _is_device(one) for one in given))


def _is_device(node: ast.expr) -> bool:
    return "cpu" not in ast.unparse(node) and not is_none(node)
