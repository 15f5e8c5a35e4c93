"""Functions of torch that are no operations of the op table: devices, modules, compilation, control flow."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from graphsafe.scan.domain.arguments import unknown_result
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.joins import element_of, join_all
from graphsafe.scan.domain.values import (
    BOOL,
    UNKNOWN,
    Array,
    DeviceValue,
    Dict,
    Dtype,
    Function,
    Instance,
    NoneValue,
    Number,
    RuntimeObject,
    Sequence,
    Tensor,
    Value,
    as_tensor,
    number,
    of_elements,
    options,
)
from graphsafe.scan.models import operations, tensors

if TYPE_CHECKING:
    from graphsafe.scan.domain.arguments import Arguments
    from graphsafe.scan.interpreter.call_frame import Frame
    from graphsafe.scan.interpreter.engine import Engine

Handler = Callable[["Engine", "Frame", ast.Call, "Arguments"], Value]


def torch(engine: Engine, frame: Frame, node: ast.Call, name: str, arguments: Arguments) -> Value:
    op = engine.ops.python(name)
    if op is None and name.startswith("torch.functional."):
        op = engine.ops.python("torch." + name.rpartition(".")[2])
    if op is not None:
        return operations.by_table(engine, frame, node, op, name, None, arguments)
    if name.startswith("torch.ops."):
        function = engine.custom_ops.function(name)
        if function is not None:
            return engine.call(frame, node, Function(function), arguments)
    last = name.rpartition(".")[2]
    if name.startswith("torch.Tensor."):
        receiver, certain = as_tensor(arguments.positional[0]) if arguments.positional else (None, False)
        if receiver is not None and certain:
            return tensors.method(
                engine, frame, node, receiver, last, replace(arguments, positional=arguments.positional[1:])
            )
        return unknown_result(arguments)
    if name.startswith("torch.nn.") and last[:1].isupper():
        return RuntimeObject("module", name)
    if name.startswith(("torch.cuda.", "torch.")) and last.endswith("Tensor") and last[:1].isupper():
        return _typed_tensor(engine, frame, node, name, arguments)
    if (
        name.startswith("torch.optim.")
        and last[:1].isupper()
        and "lr_scheduler" not in name
        and "swa_utils" not in name
    ):
        switches = [switch for switch in ("capturable", "fused") if operations.is_true(arguments.keywords.get(switch))]
        return RuntimeObject("optimizer", " ".join([last, *switches]))
    if (
        last == "GradScaler"
        and name.startswith(("torch.amp.", "torch.cuda.amp."))
        and "enabled" not in arguments.keywords
    ):
        return RuntimeObject("scaler")
    if (
        name.startswith(("torch.nn.functional.", "torch.ops.", "torch.special.", "torch.fft.", "torch._C."))
        or name.count(".") == 1
    ):
        involved = [tensor for value in arguments.values() for tensor in operations.tensors_in(value)]
        if involved and not name.startswith(("torch.ops.", "torch._C.")):
            return replace(operations.elementwise(tuple(involved), None), ndim=None)
    return unknown_result(arguments)


def _typed_tensor(engine: Engine, frame: Frame, node: ast.Call, name: str, arguments: Arguments) -> Value:
    """`torch.cuda.FloatTensor([1, 2])`: a host list goes to the device; a size makes an empty tensor."""
    on_device = ".cuda." in name
    data = arguments.get(0, "data")
    if (
        on_device
        and data is not None
        and type(data) in (Sequence, Array)
        and as_tensor(getattr(data, "elem", UNKNOWN))[0] is None
    ):
        engine.emit(frame, "Transfer", "literal", node, value="Python values")
    dtype: Dtype | None = (
        "bool" if "Bool" in name else "int" if any(k in name for k in ("Long", "Int", "Byte", "Short")) else "float"
    )
    return Tensor(where="device" if on_device else "host", dtype=dtype, literal=not on_device, fresh=True)


def device(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    value = arguments.get(0, "type")
    return operations.device_named(value) or DeviceValue("any")


def same(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    return arguments.positional[0] if arguments.positional else UNKNOWN


def parameter(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    value = arguments.get(0, "data")
    tensor, _ = as_tensor(value) if value is not None else (None, False)
    if tensor is not None:
        return replace(tensor, where="device", literal=False, fresh=False, pinned=False, maybe_host=False)
    return Tensor(dtype="float")


def module_list(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    value = arguments.get(0, "modules")
    if value is None:
        return Sequence("tuple", (), UNKNOWN)
    for option in options(value):
        if type(option) is Sequence:
            return replace(option, kind="tuple")
    return of_elements("tuple", UNKNOWN)


def module_dict(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    value = arguments.get(0, "modules")
    return value if type(value) is Dict else Dict((), UNKNOWN)


def sequential(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    return Sequence("tuple", None if arguments.open else tuple(arguments.positional), join_all(arguments.positional))


def from_numpy(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    return Tensor(where="host")


def compile(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    function = arguments.get(0, "model")
    mode = arguments.keywords.get("mode")
    if type(mode) is Number and mode.const in ("reduce-overhead", "max-autotune"):
        root_of(engine, function, f"torch.compile(mode={mode.const!r})")
    return function if function is not None else UNKNOWN


def graphed(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    function = arguments.get(0, "callables")
    root_of(engine, function, "torch.cuda.make_graphed_callables")
    return function if function is not None else UNKNOWN


def handed_over(engine: Engine, value: Value | None, why: str) -> None:
    """Make what torch will call in every step a hot root, unless its name or the configuration says that it is cold."""
    for option in options(value) if value is not None else ():
        if type(option) is not Function or not engine.is_cold(option.ref):
            root_of(engine, option, why)


def root_of(engine: Engine, value: Value | None, why: str) -> None:
    """Make what is called when `value` is called a hot root."""
    for option in options(value) if value is not None else ():
        if type(option) is Sequence:
            for item in option.items or (option.elem,):
                root_of(engine, item, why)
        elif type(option) is Function and option.node is None:
            engine.add_root(option.ref, option.bound, why)
        elif type(option) is Instance:
            for name in ("forward", "__call__"):
                method = engine.project.find_method(option.ref, name)
                if method is not None:
                    engine.add_root(method, option, why)
                    break


def capture(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    return RuntimeObject("capture")


def checkpoint(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    return _apply_first(engine, frame, node, arguments)


def _apply_first(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    if not arguments.positional:
        return unknown_result(arguments)
    return engine.call_value(
        frame, node, arguments.positional[0], replace(arguments, positional=arguments.positional[1:])
    )


def cond(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    op = engine.ops.python("torch.cond")
    if op is not None:
        operations.by_table(engine, frame, node, op, "torch.cond", None, arguments)
    operands = arguments.get(3, "operands")
    values = (
        operands.items
        if type(operands) is Sequence and operands.items is not None
        else (element_of(operands),)
        if operands is not None
        else ()
    )
    branches = [arguments.get(1, "true_fn"), arguments.get(2, "false_fn")]
    results = [
        engine.call_value(frame, node, branch, replace(arguments, positional=tuple(values), keywords={}))
        for branch in branches
        if branch is not None
    ]
    return join_all(results)


def copy_tensor(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    value = arguments.positional[0] if arguments.positional else UNKNOWN
    return replace(value, fresh=True, attr=None) if type(value) is Tensor else value


def available(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    return number(True)


def is_tensor(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    value = arguments.positional[0] if arguments.positional else UNKNOWN
    if type(value) is Tensor and value.certain:
        return number(True)
    if type(value) in (Number, Sequence, Dict, NoneValue):
        return number(False)
    return BOOL
