"""Things of the runtime with methods of their own: streams, events, generators, torch modules, loggers."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from graphsafe.scan.checks import side_stream
from graphsafe.scan.domain.joins import join, sequence
from graphsafe.scan.domain.values import (
    NONE,
    Handle,
    Number,
    Tensor,
    Unknown,
    Value,
    as_tensor,
    depends_on_step,
    of_elements,
)
from graphsafe.scan.models import formatting, library_models, operations

if TYPE_CHECKING:
    from graphsafe.scan.domain.arguments import Arguments
    from graphsafe.scan.interpreter.call_frame import Frame
    from graphsafe.scan.interpreter.engine import Engine

Handler = Callable[["Engine", "Frame", ast.Call, "Arguments"], Value]


_TABLE_NAMES = {"stream": "torch.cuda.Stream", "event": "torch.cuda.Event", "generator": "torch.Generator"}


def handle_method(
    engine: Engine, frame: Frame, node: ast.Call, handle: Handle, name: str, arguments: Arguments
) -> Value:
    if handle.kind == "logger":
        return formatting.log(engine, frame, node, name, arguments)
    if handle.kind == "environment":
        return environment(engine, frame, node, arguments)
    if handle.kind == "library":
        return library_models.method(engine, frame, node, handle, name, arguments)
    if handle.kind == "module":
        return _module_method(handle, name, arguments)
    if handle.kind == "stream" and name == "wait_stream":
        side_stream.waited(engine, frame, node, handle, arguments.values())
        return NONE
    prefix = _TABLE_NAMES.get(handle.kind)
    op = engine.ops.python(f"{prefix}.{name}") if prefix is not None else None
    if op is not None:
        return operations.by_table(engine, frame, node, op, name, None, arguments)
    if handle.kind == "event" and name == "record":
        return NONE
    if handle.kind == "stream" and name == "record_event":
        return Handle("event")
    if handle.kind == "optimizer" and name == "step":
        _optimizer_step(engine, frame, node, handle)
        return NONE
    if handle.kind == "scaler" and name == "step":
        optimizer = arguments.get(0, "optimizer")
        if type(optimizer) is Handle and optimizer.kind == "optimizer":
            _scaled_step(engine, frame, node, optimizer)
        return NONE
    return engine.after_unknown(arguments)


def _optimizer_step(engine: Engine, frame: Frame, node: ast.Call, optimizer: Handle) -> None:
    name, *switches = (optimizer.detail or "").split()
    if name != "SGD" and "capturable" not in switches:
        engine.emit(frame, "AttrWrite", "optimizer", node, value=f"`{name}`", level=None)


def _scaled_step(engine: Engine, frame: Frame, node: ast.Call, optimizer: Handle) -> None:
    """A scaler asks the host whether gradients were infinite, unless the optimizer's fused kernels can take that in."""
    _optimizer_step(engine, frame, node, optimizer)
    if "fused" not in (optimizer.detail or "").split():
        engine.emit(frame, "HostRead", "library", node, value="`GradScaler.step`")


def _module_method(handle: Handle, name: str, arguments: Arguments) -> Value:
    if name in ("to", "cuda", "cpu", "eval", "train", "half", "float", "bfloat16", "requires_grad_"):
        return handle
    if name in ("forward", "__call__"):
        return call_module(handle.detail or "", arguments)
    if name in ("parameters", "buffers"):
        return of_elements("iterator", Tensor(dtype="float"))
    return Unknown(any(map(depends_on_step, arguments.values())), True)


def call_module(name: str, arguments: Arguments) -> Value:
    """A torch.nn module called: tensors of the device in, tensors of the device out."""
    step = any(map(depends_on_step, arguments.values()))
    first, _ = as_tensor(arguments.positional[0]) if arguments.positional else (None, False)
    last = name.rpartition(".")[2]
    out = Tensor(
        dtype="float", step=step, fresh=True, ndim=first.ndim if first is not None and last != "Embedding" else None
    )
    if last in ("LSTM",):
        return sequence("tuple", (out, sequence("tuple", (out, out))))
    if last in ("GRU", "RNN", "MultiheadAttention", "LSTMCell"):
        return sequence("tuple", (out, out))
    if last in ("Identity", "Dropout") and first is not None:
        return first
    if last == "Module":
        return Unknown(step, True)
    return out


def stream(kind: str) -> Handler:
    def handler(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
        return Handle(kind)

    return handler


def known_stream(detail: str) -> Handler:
    def handler(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
        return Handle("stream", detail)

    return handler


def generator(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    target = operations.device_named(arguments.get(0, "device"))
    return Handle("generator", "host" if target is None or target.where == "host" else "device")


def capturing(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    return Number(type="bool", soft="capturing")


def environment(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    default = arguments.get(1, "default")
    if type(default) is Number:
        return replace(default, soft="environment", state=None)
    return Number(soft="environment") if default is not None else join(NONE, Number(soft="environment"))
