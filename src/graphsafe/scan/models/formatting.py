"""Turning values into text: print, str, logging."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from graphsafe.scan.domain.values import (
    NONE,
    STR,
    Number,
    Sequence,
    Value,
    as_tensor,
    confidence_of,
    describe,
)
from graphsafe.scan.models import operations

if TYPE_CHECKING:
    from graphsafe.scan.domain.arguments import Arguments
    from graphsafe.scan.interpreter.call_frame import Frame
    from graphsafe.scan.interpreter.engine import Engine

_LOGGING = {
    "debug": None,
    "info": "possible",
    "warning": "likely",
    "warn": "likely",
    "error": "likely",
    "critical": "likely",
    "exception": "likely",
    "log": "possible",
}
"Confidence that a call formats its arguments: below the default level logging drops them unread."


def format_values(engine: Engine, frame: Frame, node: ast.AST, values: Iterable[Value], doubt: str = "likely") -> None:
    for value in values:
        for tensor in operations.tensors_in(value):
            if tensor.where != "host":
                confidence = confidence_of(tensor, as_tensor(value)[1] or type(value) is Sequence)
                engine.emit(
                    frame,
                    "HostRead",
                    "format",
                    node,
                    "possible" if doubt == "possible" else confidence,
                    value=describe(tensor),
                )


def format_item(engine: Engine, frame: Frame, node: ast.AST, value: Value) -> None:
    """What a format string puts into text: a value, or each element of a sequence."""
    for item in value.items or (value.elem,) if type(value) is Sequence else (value,):
        tensor, certain = as_tensor(item)
        if tensor is not None and tensor.where != "host":
            engine.emit(frame, "HostRead", "format", node, confidence_of(tensor, certain), value=describe(item))


def log(engine: Engine, frame: Frame, node: ast.Call, level: str, arguments: Arguments) -> Value:
    doubt = _LOGGING.get(level, "possible")
    if doubt is not None:
        format_values(engine, frame, node, arguments.values(), doubt)
    return NONE


def print_(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    format_values(engine, frame, node, arguments.positional)
    return NONE


def text_(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    format_values(engine, frame, node, arguments.positional)
    value = arguments.positional[0] if arguments.positional else STR
    return value if type(value) is Number and value.type == "str" else STR
