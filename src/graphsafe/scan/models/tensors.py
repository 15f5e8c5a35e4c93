"""Methods of tensors: the few that the engine knows itself, all others by the op table."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING

from graphsafe.report.model import Confidence
from graphsafe.scan.checks import fixed_device
from graphsafe.scan.domain.arguments import unknown_result
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.naming import names_host
from graphsafe.scan.domain.summary import StepInput
from graphsafe.scan.domain.values import (
    ARRAY,
    INT,
    NUMBER,
    SIZE,
    Array,
    DeviceValue,
    DtypeValue,
    Lib,
    NoneValue,
    Number,
    Tensor,
    Unknown,
    Value,
    Where,
    as_tensor,
    confidence_of,
    depends_on_step,
    describe,
    of_elements,
)
from graphsafe.scan.models import named_calls, operations

if TYPE_CHECKING:
    from graphsafe.scan.domain.arguments import Arguments
    from graphsafe.scan.interpreter.call_frame import Frame
    from graphsafe.scan.interpreter.engine import Engine

_SHARED_NAMES = frozenset(name for kind in (list, dict, set, str) for name in dir(kind))
"Methods that containers and strings have too."


def method(engine: Engine, frame: Frame, node: ast.Call, tensor: Tensor, name: str, arguments: Arguments) -> Value:
    """`tensor.name(…)`."""
    if frame.hot and tensor.attr is not None and name.endswith("_") and not name.startswith("_"):
        engine.note(StepInput(tensor.attr))
    named_calls.note(engine, frame, node, f"torch.Tensor.{name}")
    special = _METHODS.get(name)
    if special is not None:
        return special(engine, frame, node, tensor, arguments)
    op = engine.ops.method(name)
    if op is None:
        return replace(tensor, dtype=None, ndim=None, fresh=True, attr=None, name=None)
    return operations.by_table(engine, frame, node, op, name, tensor, arguments)


def method_of_unknown(
    engine: Engine, frame: Frame, node: ast.Call, receiver: Value, name: str, arguments: Arguments
) -> Value:
    """A method of an unknown value: names that only tensors have tell what happens."""
    if frame.hot and arguments.keywords:
        engine.note_passed(name, arguments)
    step = depends_on_step(receiver)
    device = type(receiver) is Unknown and receiver.device
    on_host = type(receiver) is Unknown and receiver.host
    if name == "pin_memory":
        return Tensor(where="host", pinned=True, step=step, certain=False)
    if type(receiver) is Unknown and receiver.compared and engine.ops.method(name) is not None:
        # The truth of two numbers that were compared has no such method.
        return method(engine, frame, node, Tensor(where="any", dtype="bool", step=step), name, arguments)
    if on_host or (isinstance(node.func, ast.Attribute) and names_host(node.func.value)):
        if engine.ops.method(name) is None or name in _SHARED_NAMES:
            return Unknown(step, host=True)
        return method(engine, frame, node, Tensor(where="host", step=step, certain=False), name, arguments)
    if name in engine.ops.tensor_hints("value") and type(receiver) is Unknown and frame.hot:
        tensor = Tensor(where="any", step=step, certain=device)
        return method(engine, frame, node, tensor, name, arguments)
    if name in ("tolist", "numpy") and device and type(receiver) is Unknown:
        return method(engine, frame, node, Tensor(where="any", step=step, certain=False), name, arguments)
    if name in ("size",):
        return SIZE if not arguments.positional else INT
    if name in ("dim", "numel", "nelement"):
        return INT
    if device and engine.ops.method(name) is not None and name not in _SHARED_NAMES:
        # What was computed is no object of the project's, and numbers have no such methods.
        computed = isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.BinOp)
        computed = computed or (step and name in engine.ops.tensor_hints("step-input"))
        return method(engine, frame, node, Tensor(where="any", step=step, certain=computed), name, arguments)
    after = unknown_result(arguments)
    assert type(after) is Unknown
    if after.device:
        # State passed to an unknown call together with device tensors is taken to decide what the device does.
        for value in arguments.values():
            engine.use_number(frame, value, "argument", node)
    return replace(after, step=after.step or step, device=after.device or device)


def _item(engine: Engine, frame: Frame, node: ast.Call, tensor: Tensor, arguments: Arguments) -> Value:
    _read(engine, frame, node, tensor)
    return NUMBER


def _tolist(engine: Engine, frame: Frame, node: ast.Call, tensor: Tensor, arguments: Arguments) -> Value:
    _read(engine, frame, node, tensor)
    return of_elements("list", NUMBER)


def _read(engine: Engine, frame: Frame, node: ast.Call, tensor: Tensor) -> None:
    if tensor.where != "host":
        engine.emit(frame, "HostRead", "method", node, confidence_of(tensor, True), value=describe(tensor))


def _cpu(engine: Engine, frame: Frame, node: ast.Call, tensor: Tensor, arguments: Arguments) -> Value:
    if tensor.where != "host":
        engine.emit(frame, "Transfer", "to-host", node, confidence_of(tensor, True), value=describe(tensor))
    return replace(tensor, where="host", fresh=True, attr=None, pinned=False)


def _numpy(engine: Engine, frame: Frame, node: ast.Call, tensor: Tensor, arguments: Arguments) -> Value:
    # On a tensor of the device it raises, so one that may be anywhere is on the host.
    if tensor.where == "device":
        engine.emit(frame, "Transfer", "to-host", node, confidence_of(tensor, True), value=describe(tensor))
    return ARRAY


def _to(engine: Engine, frame: Frame, node: ast.Call, tensor: Tensor, arguments: Arguments) -> Value:
    target: DeviceValue | None = None
    dtype = tensor.dtype
    for i, value in enumerate(arguments.positional):
        if type(value) is DtypeValue:
            dtype = value.dtype
        elif i == 0:
            target = operations.device_named(value)
            if type(value) is Tensor:
                dtype = value.dtype
            elif target is None and type(value) is Unknown and _says_device(node.args[0]):
                target = DeviceValue("any")
            elif target is None and type(value) is Unknown and value.device and not _says_dtype(node.args[0]):
                # Another tensor of the step's.
                target, dtype = DeviceValue("device"), None
    if "device" in arguments.keywords and type(arguments.keywords["device"]) is not NoneValue:
        target = operations.device_named(arguments.keywords["device"]) or DeviceValue("any")
    if "dtype" in arguments.keywords:
        named_dtype = arguments.keywords["dtype"]
        dtype = named_dtype.dtype if type(named_dtype) is DtypeValue else None
    moved = replace(tensor, dtype=dtype, fresh=tensor.fresh or dtype != tensor.dtype)
    if target is None:
        return moved
    fixed_device.named(engine, frame, node)
    non_blocking = arguments.get(1 if type(arguments.get(0, "")) is not DtypeValue else 9, "non_blocking")
    if type(non_blocking) is DtypeValue:
        non_blocking = arguments.get(2, "non_blocking")
    return _moved(engine, frame, node, moved, target, non_blocking)


def _says_device(node: ast.expr) -> bool:
    return "device" in ast.unparse(node).lower()


def _says_dtype(node: ast.expr) -> bool:
    return "type" in ast.unparse(node).lower()


def _cuda(engine: Engine, frame: Frame, node: ast.Call, tensor: Tensor, arguments: Arguments) -> Value:
    return _moved(engine, frame, node, tensor, DeviceValue("device"), arguments.get(1, "non_blocking"))


def _moved(
    engine: Engine, frame: Frame, node: ast.Call, tensor: Tensor, target: DeviceValue, non_blocking: Value | None
) -> Tensor:
    if tensor.where == "host" and target.where != "host":
        if not (tensor.pinned and operations.may_be_true(non_blocking)):
            how = "literal" if tensor.literal else "blocking"
            confidence: Confidence = (
                "likely" if (tensor.certain and target.where == "device") or tensor.literal else "possible"
            )
            if tensor.certain and target.where == "any":
                confidence = "likely"
            engine.emit(frame, "Transfer", how, node, confidence, None, value=describe(tensor), **_memory(tensor))
        return replace(tensor, where="device", fresh=True, attr=None, literal=False)
    if tensor.where != "host" and target.where == "host":
        if not operations.may_be_true(non_blocking):
            engine.emit(
                frame,
                "Transfer",
                "to-host",
                node,
                confidence_of(tensor, tensor.where == "device"),
                value=describe(tensor),
            )
        return replace(tensor, where="host", fresh=True, attr=None)
    if tensor.where == "any" and target.where == "device":
        return replace(tensor, where="device")
    return tensor


def _memory(tensor: Tensor) -> Mapping[str, str]:
    return {"memory": "pinned"} if tensor.pinned else {}


def _type(engine: Engine, frame: Frame, node: ast.Call, tensor: Tensor, arguments: Arguments) -> Value:
    first = arguments.get(0, "dtype")
    name = first.name if isinstance(first, Lib) else first.const if isinstance(first, Number) else None
    if isinstance(name, str):
        # torch.FloatTensor is a type of the host, torch.cuda.FloatTensor one of the device.
        where: Where = "device" if ".cuda." in name else "host"
        return _moved(engine, frame, node, tensor, DeviceValue(where), arguments.get(1, "non_blocking"))
    return replace(tensor, dtype=first.dtype if type(first) is DtypeValue else None)


def _copy(engine: Engine, frame: Frame, node: ast.Call, tensor: Tensor, arguments: Arguments) -> Value:
    source = arguments.get(0, "src")
    if source is None:
        return tensor
    origin, certain = as_tensor(source)
    non_blocking = arguments.get(1, "non_blocking")
    if type(source) is Array:
        origin, certain = Tensor(where="host"), True
    if origin is None:
        return tensor
    confidence = confidence_of(origin, certain and tensor.certain)
    if tensor.where != "host" and origin.where == "host":
        if not (origin.pinned and operations.may_be_true(non_blocking)):
            # A name was given its values elsewhere: this line only copies them.
            built_here = origin.literal and not (node.args and isinstance(node.args[0], (ast.Name, ast.Attribute)))
            how = "literal" if built_here else "blocking"
            engine.emit(frame, "Transfer", how, node, confidence, None, value=describe(source), **_memory(origin))
    elif (
        tensor.where == "host"
        and origin.where == "device"
        and not (tensor.pinned and operations.may_be_true(non_blocking))
    ):
        engine.emit(frame, "Transfer", "to-host", node, confidence, value=describe(source))
    return replace(tensor, step=tensor.step or origin.step)


def _pin_memory(engine: Engine, frame: Frame, node: ast.Call, tensor: Tensor, arguments: Arguments) -> Value:
    if not tensor.pinned:
        engine.emit(frame, "Alloc", "pinned", node, value=describe(tensor))
    return replace(tensor, where="host", pinned=True, fresh=True, attr=None)


def _size(engine: Engine, frame: Frame, node: ast.Call, tensor: Tensor, arguments: Arguments) -> Value:
    return INT if arguments.positional or arguments.keywords else SIZE


_METHODS = {
    "item": _item,
    "tolist": _tolist,
    "cpu": _cpu,
    "numpy": _numpy,
    "__array__": _numpy,
    "to": _to,
    "type_as": _to,
    "cuda": _cuda,
    "type": _type,
    "copy_": _copy,
    "pin_memory": _pin_memory,
    "size": _size,
}
