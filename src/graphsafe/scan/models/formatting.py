"""Values that print, str and logging convert to strings."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from graphsafe.report.model import Confidence
from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.numbers import type_of
from graphsafe.scan.domain.values import NONE, STR, Sequence, Value, as_tensor, confidence_of, describe
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.models import protocols
from graphsafe.scan.models.op_arguments import tensors_in

_LOGGING: Mapping[str, Confidence | None] = {
    "debug": None,
    **dict.fromkeys(("info", "log"), "possible"),
    **dict.fromkeys(("warning", "warn", "error", "critical", "exception"), "likely"),
}
"""Logging method -> the confidence that a call formats its arguments. Calls below the default logging level do not
format them."""


def format_values(frame: Frame, node: ast.AST, values: Iterable[Value], doubt: Confidence = "likely") -> None:
    for value in values:
        if protocols.called(frame, node, value, "__str__", "__format__", "__repr__") is not None:
            continue
        for tensor in tensors_in(value):
            if tensor.where != "host":
                certain = as_tensor(value)[1] or type(value) is Sequence
                confidence = confidence_of(tensor, certain and doubt != "possible")
                frame.emit("HostRead", "format", node, confidence, value=describe(tensor))


def format_item(frame: Frame, node: ast.AST, value: Value) -> None:
    """Emit the reads that are needed to format a value, or each element of a sequence."""
    for item in value.items or (value.elem,) if type(value) is Sequence else (value,):
        protocols.called(frame, node, item, "__format__", "__str__", "__repr__")
        frame.emit_if_on_device("HostRead", "format", node, item)


def log(frame: Frame, node: ast.Call, level: str, arguments: Arguments) -> Value:
    doubt = _LOGGING.get(level, "possible")
    if doubt is not None:
        format_values(frame, node, arguments.values(), doubt)
    return NONE


def print_(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    format_values(frame, node, arguments.positional)
    return NONE


def text_(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    format_values(frame, node, arguments.positional)
    value = arguments.positional[0] if arguments.positional else STR
    return value if type_of(value) == "str" else STR
