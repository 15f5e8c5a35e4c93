"""The `with torch.cuda.graph(…)` statement itself: its stream, and what happens to an exception that leaves it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphsafe.scan.engine import Engine
    from graphsafe.scan.frame import Frame


def entered(engine: Engine, frame: Frame, node: ast.With | ast.AsyncWith, expression: ast.expr) -> None:
    hot, frame.hot = frame.hot, True
    try:
        if isinstance(expression, ast.Call) and not _has_stream(expression):
            engine.emit(frame, "StreamOp", "no-stream", expression)
        for handler in _swallowing(frame):
            engine.emit(frame, "StreamOp", "swallowed", expression, line=str(handler.lineno))
            break
    finally:
        frame.hot = hot


def _has_stream(call: ast.Call) -> bool:
    """`stream` is the third parameter of torch.cuda.graph; `**options` may hold it."""
    if len(call.args) >= 3:
        return True
    return any(keyword.arg in ("stream", None) for keyword in call.keywords)


def _swallowing(frame: Frame) -> list[ast.ExceptHandler]:
    from graphsafe.scan.statements import swallows

    return [
        handler
        for statement in reversed(frame.tries)
        for handler in statement.handlers
        if _catches_runtime_errors(handler) and swallows(handler)
    ]


def _catches_runtime_errors(handler: ast.ExceptHandler) -> bool:
    """A failed capture raises RuntimeError or torch's AcceleratorError, which derives from it."""
    names = (
        [] if handler.type is None else [ast.unparse(part) for part in getattr(handler.type, "elts", [handler.type])]
    )
    return not names or any(
        name.rpartition(".")[2] in ("Exception", "BaseException", "RuntimeError", "AcceleratorError") for name in names
    )
