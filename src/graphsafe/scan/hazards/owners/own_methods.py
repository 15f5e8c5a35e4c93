"""The classes of a file. Methods and attributes of different classes often have the same names.

These functions use only the syntax of the file; one_object.py also uses the bases that other files define.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence

from graphsafe.scan.hazards.graph_syntax import Function
from graphsafe.scan.sources.node_memo import memoize_on_node
from graphsafe.scan.symbols.index import dotted


@memoize_on_node
def _with_bases(tree: ast.AST) -> Mapping[str, frozenset[str]]:
    """Map each class of a file, by its qualified name, to its own name and the names of its bases in the file. A base
    is found by the last part of its name."""
    bases: dict[str, list[str]] = {}
    waiting = [("", tree)]
    for prefix, node in waiting:
        for child in ast.iter_child_nodes(node):
            is_named = isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
            name = f"{prefix}{child.name}" if is_named else ""  # type: ignore[attr-defined]
            if isinstance(child, ast.ClassDef):
                bases[name] = [(dotted(one) or "").rpartition(".")[2] for one in child.bases]
            if not isinstance(child, ast.expr):
                waiting.append((f"{name}." if is_named else prefix, child))
    found = {
        name: frozenset((name, *(one for one in bases if one.rpartition(".")[2] in above)))
        for name, above in bases.items()
    }
    while True:
        longer = {name: line.union(*(found[one] for one in line)) for name, line in found.items()}
        if longer == found:
            return found
        found = longer


def class_of(tree: ast.Module, function: str) -> str:
    """Return the qualified name of the class to which `self` belongs in a function, or an empty string."""
    known = _with_bases(tree)
    while function and function not in known:
        function = function.rpartition(".")[0]
    return function


def of_one_object(tree: ast.Module, cls: str) -> Sequence[str]:
    """Return all classes of which an object of `cls` may be an instance: the class itself, its bases and subclasses,
    and the bases of the subclasses."""
    lines = _with_bases(tree).values()
    return [cls, *sorted({one for line in lines if cls in line for one in line} - {cls})]


def meant_in(tree: ast.Module, functions: Iterable[tuple[str, Function]], cls: str) -> Mapping[str, Function]:
    """Return the functions to which `capture()` and `self.capture()` may refer in code of the class `cls`, by the last
    part of their names. An empty `cls` stands for code outside of classes."""
    found: dict[str, Function] = {}
    others = _with_bases(tree).keys() - {*of_one_object(tree, cls)}
    for name, node in functions:
        owner, _, last = name.rpartition(".")
        if owner == cls or (last not in found and owner not in others):
            found[last] = node
    return found
