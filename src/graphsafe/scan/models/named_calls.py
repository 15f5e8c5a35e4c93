"""Calls that rules match by the name of what is called, whatever it does."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphsafe.scan.interpreter.call_frame import Frame
    from graphsafe.scan.interpreter.engine import Engine


def note(engine: Engine, frame: Frame, node: ast.AST, name: str) -> None:
    """`name` is dotted: that of a library, or module and qualified name of a function of the project."""
    if frame.hot:
        for pattern in engine.libraries.matched(name):
            engine.emit(frame, "Call", pattern, node, value=f"`{name}`")
