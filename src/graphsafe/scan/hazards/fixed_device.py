"""Finds a device that the step names in a string: `device="cuda"`, `.to("cuda:0")`."""

from __future__ import annotations

import ast

from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.symbols.index import dotted


def named(frame: Frame, node: ast.Call) -> None:
    """Emit an event if a call makes or moves a tensor and names its device in a string.

    `cuda` is the current device, which is the module's device if the project sets it. `cuda:0` is right for only one of
    several processes. An empty tensor of at most one element stands for a missing operand of a kernel, and no work
    makes it.
    """
    if _is_placeholder(node):
        return
    text = next(filter(None, map(_literal, _arguments(node))), None)
    if text is not None:
        frame.emit("StreamOp", "literal-device", node, "likely", "warning" if text == "cuda" else "error")


def _is_placeholder(node: ast.Call) -> bool:
    sizes = [*node.args]
    while len(sizes) == 1 and isinstance(sizes[0], (ast.Tuple, ast.List)):
        sizes = [*sizes[0].elts]
    is_small = all(isinstance(size, ast.Constant) and size.value in (0, 1) for size in sizes)
    return dotted(node.func) == "torch.empty" and bool(node.args) and is_small


def _arguments(node: ast.Call) -> list[ast.expr]:
    given = [keyword.value for keyword in node.keywords if keyword.arg == "device"]
    is_move = isinstance(node.func, ast.Attribute) and node.func.attr == "to"
    return [*given, *(node.args[:1] if is_move else ())]


def _literal(node: ast.expr) -> str | None:
    if isinstance(node, ast.Call) and (dotted(node.func) or "").endswith("device") and len(node.args) == 1:
        node = node.args[0]
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.partition(":")[0] == "cuda":
        return node.value
    return None
