"""Tells whether `self` in a line of a file may be the object whose method is being read.

Two classes of a file often have attributes and methods with the same names.
"""

from __future__ import annotations

from collections.abc import Iterator

from graphsafe.scan.domain.values import ClassValue, Instance
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards.graph_syntax import Function
from graphsafe.scan.symbols.index import FunctionFacts


def may_be_one_object(frame: Frame, other: str, cls: str | None = None) -> bool:
    """Return whether one object may be an instance of both the class `cls` (by default the current method's class) and
    the class `other`.

    It may if one of the classes derives from the other, or if the receiver's class or a class of the file derives from
    both.
    """
    cls = cls or frame.owner
    path = other.partition("::")[0]
    receiver = [frame.self_value.ref] if isinstance(frame.self_value, (Instance, ClassValue)) else []
    classes = [other, *receiver, *(f"{path}::{name}" for name in frame.project.classes(path))]
    return cls is None or any({cls, other} <= {*frame.project.mro(one)} for one in classes)


def may_hold_object(frame: Frame, line: int, cls: str | None = None) -> bool:
    """Return whether `self` in a line may be the object whose method is being read. If `cls` is given, the line is in
    the file of this class; return whether `self` may be an object of the class. Outside of classes, `self` may be any
    object."""
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
