"""Finds devices that the step's own code names: `device="cuda"`, `.to("cuda:0")`, `.cuda(0)`."""

from __future__ import annotations

import ast

from graphsafe.report.model import Level
from graphsafe.scan.domain.values import Lib
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards.graph_syntax import arguments_of
from graphsafe.scan.symbols.index import dotted

_DEVICES = ("torch.device", "torch.cuda.device")


def named(frame: Frame, node: ast.Call) -> None:
    """Emit an event if a call makes or moves a tensor and names its device in a string or as a number.

    `cuda` is the current device, which is the module's device if the project sets it. `cuda:0` is right for only one of
    several processes. An uninitialised tensor of at most one element is ignored. It stands for a missing operand of a
    kernel, and no kernel runs to create it.
    """
    if _is_placeholder(node):
        return
    text = next(filter(None, (_literal(frame, one) for one in _arguments(node))), None)
    if text is not None:
        frame.emit("StreamOp", "literal-device", node, "likely", _level(text))


def entered(frame: Frame, expression: ast.expr) -> None:
    """Emit an event for `with torch.cuda.device(1):`. Operations run on the device of their tensors, so the current
    device may affect no work in the block."""
    text = _literal(frame, expression)
    if text is not None:
        frame.emit("StreamOp", "literal-device", expression, "possible", _level(text))


def _level(text: str) -> Level:
    return "warning" if text == "cuda" else "error"


def _is_placeholder(node: ast.Call) -> bool:
    sizes = [*node.args]
    while len(sizes) == 1 and isinstance(sizes[0], (ast.Tuple, ast.List)):
        sizes = [*sizes[0].elts]
    is_small = all(isinstance(size, ast.Constant) and size.value in (0, 1) for size in sizes)
    return dotted(node.func) == "torch.empty" and bool(node.args) and is_small


def _arguments(node: ast.Call) -> list[ast.expr]:
    given = [keyword.value for keyword in node.keywords if keyword.arg == "device"]
    is_move = isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "cuda")
    return [*given, *(node.args[:1] if is_move else ())]


def _literal(frame: Frame, node: ast.expr) -> str | None:
    """Return the device that an expression names without any variable, such as `cuda` or `cuda:0`, or None."""
    if not isinstance(node, ast.Call):
        return _of_constant(node)
    parts = [*map(_of_constant, arguments_of(node))]
    if not parts or None in parts:
        return None
    function = frame.evaluate_quietly(node.func)
    is_device = type(function) is Lib and function.name in _DEVICES
    return parts[-1] if is_device else None  # the last part is the index in `torch.device("cuda", 0)`


def _of_constant(node: ast.expr) -> str | None:
    value = node.value if isinstance(node, ast.Constant) else None
    if type(value) is int:
        return f"cuda:{value}"
    return value if isinstance(value, str) and value.partition(":")[0] == "cuda" else None
