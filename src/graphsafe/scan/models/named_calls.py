"""Calls that rules match by the name of the called function alone."""

from __future__ import annotations

import ast

from graphsafe.scan.execution.frame import Frame


def note(frame: Frame, node: ast.AST, name: str) -> None:
    """Emit a call that rules match by its dotted name. This is the name of a library's function, or the module and the
    name of a function of the project."""
    if frame.hot:
        for pattern in frame.engine.libraries.matched(name):
            frame.emit("Call", pattern, node, value=f"`{name}`")
