"""Distinguishes methods and attributes that have the same name but belong to different classes of a file.

The first functions use only the syntax of the file. The last functions use abstract values, and so also the bases that
other files define.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence, Set

from graphsafe.scan.domain.values import ClassValue, Instance
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards.graph_syntax import Function, called_name, calls_in, captures_in, place
from graphsafe.scan.hazards.graph_tensors import Tables
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.symbols.index import FunctionFacts, dotted

Functions = Mapping[str, Function]
_KINDS = ("Event", "Stream")
"""Classes of torch whose objects have a method `record` or `synchronize`. A runner may have methods with these names
too."""


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


def class_of(found: Tables, function: str) -> str:
    """Return the qualified name of the class to which `self` belongs in a function, or an empty string."""
    known = _with_bases(found.tree)
    while function and function not in known:
        function = function.rpartition(".")[0]
    return function


def of_one_object(found: Tables, cls: str) -> Sequence[str]:
    """Return all classes of which an object of `cls` may be an instance: the class itself, its bases and subclasses,
    and the bases of the subclasses."""
    lines = _with_bases(found.tree).values()
    return [cls, *sorted({one for line in lines if cls in line for one in line} - {cls})]


def meant_in(found: Tables, cls: str) -> Functions:
    """Return the functions to which `capture()` and `self.capture()` may refer in code of the class `cls`, by the last
    part of their names. An empty `cls` stands for code outside of classes."""
    meant: dict[str, Function] = {}
    others = _with_bases(found.tree).keys() - {*of_one_object(found, cls)}
    for name, node, _ in found.functions:
        owner, _, last = name.rpartition(".")
        if owner == cls or (last not in meant and owner not in others):
            meant[last] = node
    return meant


# captures


def with_captures(found: Tables) -> Iterator[tuple[str, Function, Functions]]:
    """Yield all functions of a file that captures. Each comes with the functions that it may call and that lead to a
    capture, directly or through further calls. These functions are listed by the last parts of their names."""
    functions = found.by_name
    of_class: dict[str, Functions] = {}
    for name, function in functions.items() if any(map(captures_in, functions.values())) else ():
        cls = class_of(found, name)
        if cls not in of_class:
            by_last = {one.rpartition(".")[2]: node for one, node in reversed(functions.items())}
            made = _constructors(functions)
            of_class[cls] = _capturing_in({**by_last, **made, **meant_in(found, cls)}, _events(found.tree))
        yield name, function, of_class[cls]


def _constructors(functions: Functions) -> Functions:
    """Return the constructors by the last parts of the names of their classes, because a call of a class runs its
    constructor."""
    pairs = ((name.rpartition("."), node) for name, node in functions.items())
    return {cls.rpartition(".")[2]: node for (cls, _, method), node in pairs if method == "__init__"}


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


# the object whose method is being read


def may_be_one_object(frame: Frame, other: str, cls: str | None = None) -> bool:
    """Return whether one object may be an instance of both the class `cls` (by default the current method's class) and
    the class `other`.

    This is so if one of the classes derives from the other, or if the receiver's class or a class of the file derives
    from both.
    """
    cls = cls or frame.owner
    path = other.partition("::")[0]
    receiver = [frame.self_value.ref] if isinstance(frame.self_value, (Instance, ClassValue)) else []
    classes = [other, *receiver, *(f"{path}::{name}" for name in frame.project.classes(path))]
    return cls is None or any({cls, other} <= {*frame.project.mro(one)} for one in classes)


def may_hold_object(frame: Frame, line: int, cls: str | None = None) -> bool:
    """Return whether `self` in a line may be the object whose method is being read. If `cls` is given, the line is in
    the file of this class, and the result says whether `self` may be an object of the class. Outside of classes, `self`
    may be any object."""
    path = cls.partition("::")[0] if cls is not None else frame.path
    owners = {facts.owner for facts, _ in functions_of(frame, path) if facts.owner is not None and facts.holds(line)}
    return not owners or any(may_be_one_object(frame, f"{path}::{owner}", cls) for owner in owners)


def functions_of(frame: Frame, path: str) -> Iterator[tuple[FunctionFacts, Function]]:
    """Yield the functions of a file: their facts and their syntax trees."""
    file = frame.project.files.index(path)
    for facts in file.functions.values() if file is not None else ():
        node = frame.project.function_node(f"{path}::{facts.name}")
        if node is not None:
            yield facts, node
