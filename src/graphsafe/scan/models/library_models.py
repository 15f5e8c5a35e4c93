"""Calls of libraries that the rulebook has a summary of."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from graphsafe.libraries import Summary
from graphsafe.scan.domain.naming import says_host
from graphsafe.scan.domain.values import (
    ARRAY,
    NONE,
    NUMBER,
    STR,
    UNKNOWN,
    Dict,
    Handle,
    Number,
    Tensor,
    Unknown,
    Value,
    as_tensor,
    depends_on_step,
)

if TYPE_CHECKING:
    from graphsafe.scan.domain.arguments import Arguments
    from graphsafe.scan.interpreter.call_frame import Frame
    from graphsafe.scan.interpreter.engine import Engine


def call(engine: Engine, frame: Frame, node: ast.Call, name: str, summary: Summary, arguments: Arguments) -> Value:
    """`name` is the dotted name that was called; an object keeps it, so that its methods can be found behind it."""
    if summary.waits and not _reads_host(node, arguments) and not _loads_to_host(summary, arguments):
        engine.emit(frame, "HostRead", "library", node, value=f"`{name}`")
    return returned(name, summary, arguments)


def _reads_host(node: ast.Call, arguments: Arguments) -> bool:
    """Whether what a call would copy to the host is there already, as a plan's index tensors may be."""
    if not arguments.positional:
        return False
    first = as_tensor(arguments.positional[0])[0]
    return first.where == "host" if first is not None else bool(node.args) and says_host(node.args[0])


def _loads_to_host(summary: Summary, arguments: Arguments) -> bool:
    """Whether a call that makes tensors on the host, where it is given no other device, is given none."""
    return summary.returns == "host-tensors" and not arguments.open and arguments.get(1, "device") is None


def method(engine: Engine, frame: Frame, node: ast.Call, owner: Handle, name: str, arguments: Arguments) -> Value:
    """A method of an object that a library made."""
    full = f"{owner.detail}.{name}"
    summary = engine.libraries.find(full)
    if summary is None:
        after = engine.after_unknown(arguments)
        return Unknown(after.step, True) if isinstance(after, Unknown) else after
    return call(engine, frame, node, full, summary, arguments)


def returned(name: str, summary: Summary, arguments: Arguments) -> Value:
    step = any(map(depends_on_step, arguments.values()))
    simple: dict[str, Value] = {
        "object": Handle("library", name),
        "tensor": Tensor(step=step, fresh=True),
        "host-tensor": Tensor(where="host", fresh=True),
        "tensors": Unknown(step, True),
        "host-tensors": Dict((), Tensor(where="host", fresh=True)),
        "length": Tensor(dtype="int", ndim=0, name="the cache's length"),
        "number": NUMBER,
        "array": ARRAY,
        "text": STR,
        "nothing": NONE,
    }
    if summary.returns != "first":
        return simple.get(summary.returns, Unknown(step, False))
    first = arguments.positional[0] if arguments.positional else UNKNOWN
    tensor, _ = as_tensor(first)
    if tensor is None:
        return NUMBER if type(first) is Number else first
    return replace(tensor, ndim=None, name=None, fresh=False)
