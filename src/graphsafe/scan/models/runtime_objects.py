"""Objects of PyTorch and of libraries with methods of their own: streams, events, torch modules, optimizers."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from graphsafe.optable import Argument, Call
from graphsafe.scan.checks import side_stream
from graphsafe.scan.domain.arguments import unknown_result
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.joins import join
from graphsafe.scan.domain.values import (
    NONE,
    Number,
    RuntimeObject,
    Tensor,
    Unknown,
    Value,
    depends_on_step,
    of_elements,
)
from graphsafe.scan.models import formatting, library_models, named_calls, operations

if TYPE_CHECKING:
    from graphsafe.scan.domain.arguments import Arguments
    from graphsafe.scan.interpreter.call_frame import Frame
    from graphsafe.scan.interpreter.engine import Engine


_CLASS_OF_KIND: Mapping[str, str] = {
    "stream": "torch.cuda.Stream",
    "event": "torch.cuda.Event",
    "generator": "torch.Generator",
    "random": "random.Random",
    "numpy-random": "numpy.random.Generator",
}
"Whose methods the op table and libraries.yaml know under this name."


def method(
    engine: Engine, frame: Frame, node: ast.Call, handle: RuntimeObject, name: str, arguments: Arguments
) -> Value:
    handler = _METHODS.get(handle.kind)
    if handler is not None:
        return handler(engine, frame, node, handle, name, arguments)
    if handle.kind == "stream" and name == "wait_stream":
        side_stream.waited(engine, frame, node, handle, arguments.values())
    full = f"{_CLASS_OF_KIND.get(handle.kind, handle.kind)}.{name}"
    named_calls.note(engine, frame, node, full)
    op = engine.ops.python(full)
    if op is not None:
        return operations.by_table(engine, frame, node, op, name, None, arguments)
    model = engine.libraries.find(full)
    if model is not None:
        return library_models.call(engine, frame, node, full, model, arguments)
    return unknown_result(arguments)


def _logger(
    engine: Engine, frame: Frame, node: ast.Call, handle: RuntimeObject, name: str, arguments: Arguments
) -> Value:
    return formatting.log(engine, frame, node, name, arguments)


def _environment(
    engine: Engine, frame: Frame, node: ast.Call, handle: RuntimeObject, name: str, arguments: Arguments
) -> Value:
    return environment(engine, frame, node, arguments)


def _optimizer(
    engine: Engine, frame: Frame, node: ast.Call, handle: RuntimeObject, name: str, arguments: Arguments
) -> Value:
    if name != "step":
        return unknown_result(arguments)
    kind, *switches = (handle.detail or "").split()
    own = f"torch.optim.{kind}.step"
    _step(engine, frame, node, own if engine.ops.python(own) else "torch.optim.Optimizer.step", kind, switches)
    return NONE


def _scaler(
    engine: Engine, frame: Frame, node: ast.Call, handle: RuntimeObject, name: str, arguments: Arguments
) -> Value:
    if name != "step":
        return unknown_result(arguments)
    optimizer = arguments.get(0, "optimizer")
    switches: list[str] = []
    if type(optimizer) is RuntimeObject and optimizer.kind == "optimizer":
        _optimizer(engine, frame, node, optimizer, name, arguments)
        switches = (optimizer.detail or "").split()[1:]
    _step(engine, frame, node, "torch.amp.GradScaler.step", "GradScaler.step", switches)
    return NONE


def _step(engine: Engine, frame: Frame, node: ast.Call, entry: str, text: str, switches: list[str]) -> None:
    """A step of an optimizer, whose entry in the op table asks for what the optimizer was made with."""
    op = engine.ops.python(entry)
    call = Call(keywords=dict.fromkeys(switches, Argument("bool", True)))
    for hit in op.effects_of(call) if op is not None else ():
        event = operations.EVENT_OF_EFFECT[hit.effect.kind]
        engine.emit(frame, event, hit.effect.how, node, value=f"`{text}`")


def _module(
    engine: Engine, frame: Frame, node: ast.Call, handle: RuntimeObject, name: str, arguments: Arguments
) -> Value:
    full = f"{handle.detail}.{'forward' if name == '__call__' else name}"
    model = engine.libraries.find(full)
    if model is not None:
        return handle if model.returns == "self" else library_models.call(engine, frame, node, full, model, arguments)
    if name in ("parameters", "buffers"):
        return of_elements("iterator", Tensor(dtype="float"))
    return Unknown(any(map(depends_on_step, arguments.values())), True)


def call_module(engine: Engine, frame: Frame, node: ast.Call, handle: RuntimeObject, arguments: Arguments) -> Value:
    """A module of PyTorch's called."""
    return _module(engine, frame, node, handle, "forward", arguments)


Method = Callable[["Engine", "Frame", ast.Call, RuntimeObject, str, "Arguments"], Value]
_METHODS: Mapping[str, Method] = {
    "logger": _logger,
    "environment": _environment,
    "library": library_models.method,
    "module": _module,
    "optimizer": _optimizer,
    "scaler": _scaler,
}
"What calls of methods do, for kinds of objects of which the op table and libraries.yaml do not know all."


def generator(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    target = operations.device_named(arguments.get(0, "device"))
    return RuntimeObject("generator", "host" if target is None or target.where == "host" else "device")


def capturing(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    return Number(type="bool", overridable_by="capturing")


def environment(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    default = arguments.get(1, "default")
    if type(default) is Number:
        return replace(default, overridable_by="environment", state=None)
    return (
        Number(overridable_by="environment")
        if default is not None
        else join(NONE, Number(overridable_by="environment"))
    )
