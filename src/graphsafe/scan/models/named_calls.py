"""Calls that are judged only by the name of the called function. Either the name is enough, or nothing else is
known."""

from __future__ import annotations

import ast

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.summary import PassedByName
from graphsafe.scan.domain.values import NoneValue, Tensor, as_tensor
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.symbols.blocks import parameters


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
            _note(frame, method, keyword, tensor)


def note_known(frame: Frame, method: str, arguments: Arguments) -> None:
    """Record the arguments that a call in a step or between steps passes to a known method. The method may also be a
    root. An argument that is not certainly a host tensor counts as a device tensor."""
    node = frame.project.function_node(method) if frame.hot or frame.between else None
    if node is None or arguments.further:
        return
    names = [one.arg for one in parameters(node)][1:]
    for name, value in (*zip(names, arguments.positional, strict=False), *arguments.keywords.items()):
        tensor, certain = as_tensor(value)
        on_host = tensor is not None and certain and tensor.certain and tensor.where == "host"
        if type(value) is not NoneValue:
            _note(frame, method, name, tensor if tensor is not None and on_host else Tensor())


def _note(frame: Frame, method: str, parameter: str, tensor: Tensor) -> None:
    passed = Tensor(tensor.where, tensor.dtype, pinned=tensor.pinned, step=True, name=parameter)
    frame.engine.note(PassedByName(method, passed))
