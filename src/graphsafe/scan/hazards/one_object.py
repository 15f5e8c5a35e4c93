"""Lines of a file whose `self` may be the object whose method is being read.

Two classes of a file often have attributes and methods with the same names.
"""

from __future__ import annotations

from collections.abc import Iterator

from graphsafe.scan.domain.values import ClassValue, Instance
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards.graph_syntax import Function
from graphsafe.scan.symbols.index import FunctionFacts


def may_be_one_object(frame: Frame, other: str) -> bool:
    """Return whether an object of the current method's class may also be of another class: one of the two derives from
    the other, or a class of the file, or the receiver's class, derives from both."""
    receiver = [frame.self_value.ref] if isinstance(frame.self_value, (Instance, ClassValue)) else []
    classes = [other, *receiver, *(f"{frame.path}::{name}" for name in frame.project.classes(frame.path))]
    return frame.owner is None or any({frame.owner, other} <= {*frame.project.mro(cls)} for cls in classes)


def may_hold_object(frame: Frame, line: int) -> bool:
    """Return whether `self` in a line may be the object whose method is being read. In a line outside classes it may be
    any object."""
    owners = {facts.owner for facts, _ in functions_of(frame) if facts.owner is not None and facts.holds(line)}
    return not owners or any(may_be_one_object(frame, f"{frame.path}::{owner}") for owner in owners)


def functions_of(frame: Frame) -> Iterator[tuple[FunctionFacts, Function]]:
    """Yield the functions of the file that is being read."""
    file = frame.project.files.index(frame.path)
    for facts in file.functions.values() if file is not None else ():
        node = frame.project.function_node(f"{frame.path}::{facts.name}")
        if node is not None:
            yield facts, node
