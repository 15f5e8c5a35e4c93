"""Finds fields of metadata objects to which the capture and each step assign different new tensors.

`meta.lengths = torch.tensor(lengths, device=device)` in the method for captures gives the graph the address of a
tensor. The same line in the method for steps makes another tensor, so replays still read the values of the capture.

Other methods for captures keep their object in a table (`self.metas[size] = meta`), and the methods for steps take it
from there (`meta = self.metas[size]`). If such a method assigns a new tensor to a field, no graph reads that tensor.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from graphsafe.scan.hazards.graph_syntax import Function, arguments_of, constructed, own, own_nodes
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.blocks import attribute_of
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
KEPT = re.compile(r"\bself\.\w+\[[^]\n]+\] = [a-z]\w*$", re.M)
"Matches a line that keeps an object in a table."
_COPIES = re.compile(
    r"(nn\.functional|F)\.pad|cumsum|cat|stack|where|clone|repeat_interleave|gather|index_select|\w+_like"
)
"Matches functions and methods that compute a tensor in new memory."
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
    steps. For each line, yield its function, its place and its source code."""
    for cls in inside(tree, ast.ClassDef):
        methods = [node for node in cls.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        yield from _Kept(cls, methods).lines()
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
    """Return the fields to which a method assigns only new device tensors, for the objects that the method makes."""
    assigned = [node for node in own(method, ast.Assign) if len(node.targets) == 1]
    kinds = {
        node.targets[0].id: made
        for node in assigned
        if isinstance(node.targets[0], ast.Name) and (made := constructed(node.value)) is not None
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


class _Kept:
    """The objects that a class keeps in tables for its captures."""

    def __init__(self, cls: ast.ClassDef, methods: Sequence[Function]) -> None:
        self._cls = cls
        self._methods = {node.name: node for node in methods}
        assigned = [one for node in methods if CAPTURES.search(node.name) for one in own(node, ast.Assign)]
        targets = [target for one in assigned if isinstance(one.value, ast.Name) for target in one.targets]
        self._tables = {
            name for one in targets if isinstance(one, ast.Subscript) and (name := attribute_of(one.value, "self"))
        }

    def lines(self) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
        """Yield the lines of methods for steps that assign a new tensor to a field of a kept object, or call a method
        that does so."""
        for name, method in self._methods.items() if self._tables else ():
            if CAPTURES.search(name) or OTHERWISE.search(name):
                continue
            nodes = [node for _, node in own_nodes(method) if isinstance(node, (ast.expr, ast.stmt))]
            bound = [
                (target.id, self._is_taken(node.value))
                for node in own(method, ast.Assign)
                if not is_none(node.value)
                for target in node.targets
                if isinstance(target, ast.Name)
            ]
            objects = {name for name, is_taken in bound if is_taken} - {
                name for name, is_taken in bound if not is_taken
            }
            for node in nodes if objects else ():
                for written in self._replaced(node, objects, method):
                    if self._is_read(written.rpartition(".")[2], method):
                        yield f"{self._cls.name}.{name}", node, written

    def _is_taken(self, value: ast.expr) -> bool:
        """Return whether a value is an entry of a table: `self.metas[size]`, `self.metas.get(size)`."""
        held = value.value if isinstance(value, ast.Subscript) else None
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "get":
            held = value.func.value
        return attribute_of(held, "self") in self._tables

    def _replaced(self, node: ast.AST, objects: Set[str], method: Function) -> Iterator[str]:
        """Yield the fields to which a line, or a method that the line calls, assigns new tensors."""
        if isinstance(node, ast.Assign):
            for target in node.targets:
                held = target.value if isinstance(target, ast.Attribute) else None
                if isinstance(held, ast.Name) and held.id in objects and self._is_new(node.value, method):
                    yield ast.unparse(target)
        elif isinstance(node, ast.Call):
            called = self._methods.get(attribute_of(node.func, "self") or "")
            if called is not None and called is not method:
                passed = {
                    parameter.arg: value.id
                    for value, parameter in zip(node.args, called.args.args[1:], strict=False)
                    if isinstance(value, ast.Name) and value.id in objects
                }
                for inner in own(called, ast.Assign) if passed else ():
                    for field in self._replaced(inner, passed.keys(), called):
                        holder, _, name = field.partition(".")
                        yield f"{passed[holder]}.{name}"

    def _is_new(self, value: ast.expr, method: Function) -> bool:
        """Return whether a value is in new memory on the device: a new tensor, or a new object that holds one."""
        if isinstance(value, ast.Name):
            made = [one.value for one in own(method, ast.Assign) if value.id in map(ast.unparse, one.targets)]
            constructors = [one for one in made if isinstance(one, ast.Call) and constructed(one) is not None]
            given = [one for call in constructors for one in arguments_of(call)]
            return len(made) == 1 and any(_is_new_on_device(one) for one in given)
        if isinstance(value, ast.Subscript):
            parts = value.slice.elts if isinstance(value.slice, ast.Tuple) else [value.slice]
            return any(self._is_tensor(one, method) for one in parts)
        if not isinstance(value, ast.Call) or "cpu" in ast.unparse(value):
            return False
        name = ast.unparse(value.func).removeprefix("torch.")
        last = name.rpartition(".")[2]
        return _is_new_on_device(value) or _COPIES.fullmatch(name) is not None or last in ("clone", "cumsum")

    def _is_tensor(self, index: ast.expr, method: Function) -> bool:
        """Return whether an index is a tensor: a parameter that is annotated as a tensor, a part of such a parameter,
        or an entry of a table of the class, such as `{"indices": torch.arange(…)}`."""
        base = index.value if isinstance(index, ast.Subscript) else index
        if isinstance(base, ast.Name):
            noted = [one.annotation for one in inside(method.args, ast.arg) if one.arg == base.id]
            return any(one is not None and ast.unparse(one).endswith("Tensor") for one in noted)
        key = index.slice if isinstance(index, ast.Subscript) else None
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            return False
        entries = [
            entry for table in inside(self._cls, ast.Dict) for entry in zip(table.keys, table.values, strict=True)
        ]
        values = [value for one, value in entries if isinstance(one, ast.Constant) and one.value == key.value]
        return any(isinstance(value, ast.Call) and dotted(value.func) in MAKERS for value in values)

    def _is_read(self, field: str, method: Function) -> bool:
        """Return whether a method that may run in the graph reads a field."""
        others = [
            node
            for name, node in self._methods.items()
            if node is not method and not (CAPTURES.search(name) or OTHERWISE.search(name) or name.startswith("init_"))
        ]
        return any(
            (isinstance(one, ast.Attribute) and one.attr == field and isinstance(one.ctx, ast.Load))
            or (isinstance(one, ast.Constant) and one.value == field)  # getattr(meta, "field", None)
            for node in others
            for _, one in own_nodes(node)
        )


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
