"""Clocks: host state that no line writes, because each call returns a new value."""

from __future__ import annotations

import ast

from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.state_log import Use
from graphsafe.scan.domain.summary import Item
from graphsafe.scan.domain.values import Number
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.state.own_changes import own_change

KEY = "clock"
VERSION = "version"


def read(frame: Frame, node: ast.expr, kind: str = KEY) -> Number:
    """Return the number of a clock, marked as state. The mark shows where the number is used, because most clocks only
    time the step and affect nothing on the device.

    The version of a tensor, `x._version`, counts as a clock too, because each write in place increases it.
    """
    # The line is counted from the function's first line, so that edits above the function do not change the key.
    line = node.lineno - (frame.node.lineno if frame.node is not None else 0)
    key = f"{kind}::{frame.ref}:{line}:{node.col_offset}"
    value = Number(type="float" if kind == KEY else "int", state=(key,))
    if frame.hot:
        frame.engine.note(own_change(frame, node, key, ast.unparse(node), value, keyed=False))
    return value


def decides(items: list[Item], since: int, end: int) -> None:
    """Record that the result of the step depends on a condition, if the condition reads a clock. The effects of the
    condition are the items from `since` to `end`. Callers call this only for a condition that chooses the result. In
    other conditions, a clock may have no effect on the result: for example, it may only decide when to log."""
    for i, item in enumerate(items[since:end], since):
        if type(item) is Use and item.key.startswith(KEY):
            items[i] = replace(item, kind="operand")


def read_by(condition: list[Item]) -> tuple[str, ...]:
    """Return the clocks that a condition with these effects reads."""
    return tuple(sorted({item.key for item in condition if type(item) is Use and item.key.startswith(KEY)}))
