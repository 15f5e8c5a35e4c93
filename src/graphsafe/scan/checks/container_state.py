"""Containers and iterators that outlive a step, and what a step changes in them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from graphsafe.scan.checks.own_changes import own_change
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.values import UNKNOWN, Dict, Sequence, Unknown, Value, of_elements

if TYPE_CHECKING:
    from graphsafe.scan.interpreter.call_frame import Frame
    from graphsafe.scan.interpreter.engine import Engine

CHANGES = frozenset(
    "append appendleft clear discard extend extendleft insert pop popitem popleft remove reverse rotate".split()
)
"Methods that change which elements a container holds, or their order."


def changed(engine: Engine, frame: Frame, node: ast.Call, container: Sequence | Dict, name: str) -> None:
    """A method of a list, deque or dict is called."""
    if not frame.hot or container.held_by is None or name not in CHANGES or not isinstance(node.func, ast.Attribute):
        return
    elem = container.elem
    if type(elem) is Unknown:
        elem = replace(elem, state=container.held_by)
    # What is emptied first holds what this step puts there.
    value = of_elements("list", UNKNOWN) if name == "clear" else elem
    text = ast.unparse(node.func.value)
    engine.note(own_change(frame, node, container.held_by, text, value, reads_self=name != "clear"))


def advanced(engine: Engine, frame: Frame, node: ast.Call, iterator: Value) -> None:
    """`next(self.rates)`: a replay takes no further element, whatever the elements are."""
    if type(iterator) is not Sequence or iterator.kind != "iterator" or iterator.held_by is None or not node.args:
        return
    text = ast.unparse(node.args[0])
    engine.emit(frame, "AttrWrite", "host-state", node, attribute=text, value="the next element of an iterator")


__all__ = ["advanced", "changed"]
