"""Calls that are judged only by the name of the called function. Either the name is enough, or nothing else is
known."""

from __future__ import annotations

import ast

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.summary import PassedByName
from graphsafe.scan.domain.values import Tensor, as_tensor
from graphsafe.scan.execution.frame import Frame


def note(frame: Frame, node: ast.AST, name: str) -> None:
    """Emit an event for a call that rules match by its dotted name. For a function of the project, the dotted name
    consists of the module and the function's name."""
    if frame.hot:
        for pattern in frame.engine.libraries.matched(name):
            frame.emit("Call", pattern, node, value=f"`{name}`")


def note_arguments(frame: Frame, method: str, arguments: Arguments) -> None:
    """Record the tensors that are passed by keyword to a method of which only the name is known. Only the device, the
    dtype and whether the memory is pinned are kept."""
    for keyword, value in arguments.keywords.items():
        tensor, certain = as_tensor(value)
        if tensor is not None and certain and tensor.where != "any":
            passed = Tensor(tensor.where, tensor.dtype, pinned=tensor.pinned, step=True, name=keyword)
            frame.engine.note(PassedByName(method, passed))
