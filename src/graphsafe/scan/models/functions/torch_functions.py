"""Functions of torch that are not in the op table: devices, modules, compilation, control flow."""

from __future__ import annotations

import ast
import re

from graphsafe.scan.domain.arguments import Arguments, unknown_result
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.held import weights
from graphsafe.scan.domain.joins import element_of, join_all
from graphsafe.scan.domain.numbers import const_of
from graphsafe.scan.domain.record import WRAPPED
from graphsafe.scan.domain.values import (
    BOOL,
    UNKNOWN,
    DeviceValue,
    Dict,
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
from graphsafe.scan.execution.frame import Engine, Frame
from graphsafe.scan.models import operations
from graphsafe.scan.models.op_arguments import device_named, may_be_true, tensors_in
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.symbols.custom_ops import function_behind
from graphsafe.scan.symbols.index import CAPTURING_MODES

_COMPUTING = ("torch.nn.functional.", "torch.special.", "torch.fft.")
"Modules of torch whose functions compute tensors from tensors."


def torch(frame: Frame, node: ast.Call, name: str, arguments: Arguments) -> Value:
    """Return the result of a function or class of torch that has no handler of its own."""
    op = frame.ops.python(name)
    if name.startswith("torch.ops.aten."):
        # `torch.ops.aten.add.Tensor(x, y)` takes the arguments of `torch.add(x, y)`.
        called = name.split(".")[3]
        op = frame.ops.python(f"torch.{called}") or frame.ops.method(called)
    if op is not None:
        return operations.by_table(frame, node, op, name, None, arguments)
    if name.startswith("torch.ops."):
        function = function_behind(frame.project, name)
        if function is not None:
            return frame.call(node, Function(function), arguments)
    last = name.rpartition(".")[2]
    made = _constructed(frame, node, name, last, arguments)
    if made is not None:
        return made
    if name.startswith(_COMPUTING) or name.count(".") == 1:
        involved = [tensor for value in arguments.values() for tensor in tensors_in(value)]
        if involved:
            for value in arguments.values():
                frame.use_number(value, "argument", node)
            return replace(operations.elementwise(tuple(involved), None), ndim=None)
    return unknown_result(arguments)


def _constructed(frame: Frame, node: ast.Call, name: str, last: str, arguments: Arguments) -> Value | None:
    """Return the object that a class of torch makes (a module, an optimizer, a scaler), or None for any other name."""
    if name.startswith("torch.distributed.") and const_of(arguments.keywords.get("async_op")) is True:
        return RuntimeObject("library", "torch.distributed.Work")
    if not last[:1].isupper():
        return None
    given = arguments.keywords.get
    if name.startswith("torch.nn."):
        averages = type(given("momentum")) is NoneValue and const_of(given("track_running_stats")) is not False
        return RuntimeObject("module", f"{name}[momentum=None]" if averages else name)
    if name.startswith("torch.optim.") and "lr_scheduler" not in name and "swa_utils" not in name:
        switches = [switch for switch in ("capturable", "fused") if may_be_true(given(switch))]
        decay = ["lr_decay"] if may_be_true(given("lr_decay")) else []
        return RuntimeObject("optimizer", " ".join([last, *switches, *decay]))
    if last == "ReduceLROnPlateau":
        return RuntimeObject("plateau")
    if last == "GradScaler" and name.startswith(("torch.amp.", "torch.cuda.amp.", "torch.GradScaler")):
        return RuntimeObject("scaler") if "enabled" not in arguments.keywords else None
    return None


def device(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    value = arguments.get(0, "type")
    return device_named(value) or DeviceValue("any")


def same(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    return arguments.first


def parameter(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    value = arguments.get(0, "data")
    tensor, _ = as_tensor(value) if value is not None else (None, False)
    if tensor is not None and tensor.where == "host" and not tensor.maybe_pinned and _stays(frame, node):
        # If such a parameter is used together with tensors on the device, it must be 0-d, because other CPU tensors
        # raise an error.
        return replace(tensor, literal=False, fresh=False, pinned=False, ndim=tensor.ndim or 0)
    if tensor is not None:
        return replace(tensor, where="device", literal=False, fresh=False, pinned=False, maybe_host=False)
    return Tensor(dtype="float")


def _stays(frame: Frame, node: ast.Call) -> bool:
    """Return whether a parameter stays where it was made, because it is an attribute of an object that is no module.
    Neither `to` nor `cuda` of a module moves such a parameter, but the file may move its data."""
    owner = frame.self_value
    if type(owner) is not Instance or frame.hot or frame.node is None or node not in _made_for_self(frame.node):
        return False  # a method of a plain object may make parameters of a module
    return not frame.project.has_foreign_base(owner.ref) and not frame.project.files.search(frame.path, _MOVES_DATA)


@memoize_on_node
def _made_for_self(function: ast.AST) -> frozenset[ast.AST | None]:
    """Return the values that a function assigns to attributes of `self`."""
    plain = ((target, one.value) for one in inside(function, ast.Assign) for target in one.targets)
    annotated = ((one.target, one.value) for one in inside(function, ast.AnnAssign))
    return frozenset(value for target, value in (*plain, *annotated) if ast.unparse(target).startswith("self."))


_MOVES_DATA = re.compile(r"\.data\s*=[^=\n]*\.(?:to|cuda)\(")
"Matches assignments that move the data of a parameter: `p.data = p.data.to(device)`."


def module_list(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    value = arguments.get(0, "modules")
    if value is None:
        return Sequence("tuple", (), UNKNOWN)
    for option in options(value):
        if type(option) is Sequence:
            return replace(option, kind="tuple")
    return of_elements("tuple", UNKNOWN)


def step(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    """Return the tuple of `graphsafe.Step(fn, args, kwargs)`. A target's factory may also return such a tuple."""
    fields = ((0, "fn", UNKNOWN), (1, "args", Sequence("tuple", (), UNKNOWN)), (2, "kwargs", Dict((), UNKNOWN)))
    parts = tuple(arguments.get(position, name) or default for position, name, default in fields)
    return Sequence("tuple", parts, join_all(parts))


def module_dict(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    value = arguments.get(0, "modules")
    return value if type(value) is Dict else Dict((), UNKNOWN)


def sequential(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    return Sequence("tuple", None if arguments.further else tuple(arguments.positional), join_all(arguments.positional))


def compile(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    function = arguments.get(0, "model")
    mode = const_of(arguments.keywords.get("mode"))
    if mode in CAPTURING_MODES:
        root_of(frame.engine, function, f"torch.compile(mode={mode!r})")
    return function if function is not None else UNKNOWN


def graphed(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    """Return the callable that `make_graphed_callables(f)` or tensordict's `CudaGraphModule(f)` captures."""
    function = arguments.get(0, "callables") or arguments.keywords.get("module")
    root_of(frame.engine, function, f"{WRAPPED}{ast.unparse(node.func)}")
    for option in options(function) if function is not None else ():
        if type(option) is Instance:
            captured, frame.captured = frame.captured, True
            frame.engine.note_read(frame, weights(option.ref))
            frame.captured = captured
    return function if function is not None else UNKNOWN


def handed_over(engine: Engine, value: Value | None, why: str) -> None:
    """Make a hot root of a function that torch calls in every step, unless the function's name or the configuration
    makes it cold."""
    for option in options(value) if value is not None else ():
        if type(option) is not Function or not engine.is_cold(option.ref):
            root_of(engine, option, why)


def root_of(engine: Engine, value: Value | None, why: str) -> None:
    """Make a hot root of the function that `value()` calls."""
    for option in options(value) if value is not None else ():
        if type(option) is Sequence:
            for item in option.items or (option.elem,):
                root_of(engine, item, why)
        elif type(option) is Function:
            engine.add_root(option.ref, option.bound if option.node is None else option, why)
        elif type(option) is Instance:
            for name in ("forward", "__call__"):
                method = engine.project.find_method(option.ref, name)
                if method is not None:
                    engine.add_root(method, option, why)
                    break


def checkpoint(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    if not arguments.positional:
        return unknown_result(arguments)
    return frame.call_value(node, arguments.positional[0], replace(arguments, positional=arguments.positional[1:]))


SAVED_TENSORS_HOOKS = "torch.autograd.graph.saved_tensors_hooks"


def saved_tensors_hooks(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    """Call both hooks, because the backward pass unpacks the tensors that the forward pass has packed."""
    pack, unpack = arguments.get(0, "pack_hook"), arguments.get(1, "unpack_hook")
    if pack is not None and unpack is not None:
        packed = frame.call_value(node, pack, Arguments((Tensor(dtype="float", step=True),)))
        frame.call_value(node, unpack, Arguments((packed,)))
    return UNKNOWN


def save_on_cpu(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    """Emit the copies of the tensors that the forward pass saves. Pinned memory makes the copies asynchronous, but each
    copy allocates new pinned memory."""
    if may_be_true(arguments.get(0, "pin_memory")):
        frame.emit("Alloc", "pinned", node, value="a saved tensor")
    else:
        frame.emit("Transfer", "to-host", node, value="the tensors that autograd saves")
    return UNKNOWN


def cond(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    op = frame.ops.python("torch.cond")
    if op is not None:
        operations.by_table(frame, node, op, "torch.cond", None, arguments)
    operands = arguments.get(3, "operands")
    values: tuple[Value, ...] = () if operands is None else (element_of(operands),)
    if type(operands) is Sequence and operands.items is not None:
        values = operands.items
    given = replace(arguments, positional=values, keywords={})
    branches = (arguments.get(1, "true_fn"), arguments.get(2, "false_fn"))
    return join_all(frame.call_value(node, branch, given) for branch in branches if branch is not None)


def copy_tensor(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    value = arguments.first
    if type(value) is Instance:
        # If code assigns attributes of the copy, this does not change the state of the original object.
        return replace(value, made=value.made or frame.hot)
    return replace(value, fresh=True, attr=None) if type(value) is Tensor else value


def is_tensor(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    value = arguments.first
    if type(value) is Tensor and value.certain:
        return number(True)
    if type(value) in (Number, Sequence, Dict, NoneValue):
        return number(False)
    return BOOL
