"""Values that differ at each call, such as `time.time()`: state of the host that no line writes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from graphsafe.scan.checks.own_changes import own_change
from graphsafe.scan.domain.values import Number

if TYPE_CHECKING:
    from graphsafe.scan.interpreter.call_frame import Frame
    from graphsafe.scan.interpreter.engine import Engine

KEY = "clock"


def read(engine: Engine, frame: Frame, node: ast.Call) -> Number:
    """The number, marked as state so that its uses are noted: most clocks only time the step or end a wait."""
    # From the function's first line on, so that it is the same one when lines above have moved.
    line = node.lineno - (frame.node.lineno if frame.node is not None else 0)
    value = Number(type="float", state=f"{KEY}::{frame.ref}:{line}:{node.col_offset}")
    if frame.hot:
        assert value.state is not None
        engine.note(own_change(frame, node, value.state, ast.unparse(node), value, keyed=False))
    return value


__all__ = ["KEY", "read"]
