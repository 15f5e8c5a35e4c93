"""Methods of tensors. A few have handlers here, and all others are in the op table."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping

from graphsafe.report.model import Confidence
from graphsafe.scan.domain.arguments import Arguments, unknown_result
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.joins import sequence
from graphsafe.scan.domain.naming import CONTAINER_METHODS, MODEL, last_name, names_host
from graphsafe.scan.domain.numbers import const_of
from graphsafe.scan.domain.summary import StepInput
from graphsafe.scan.domain.values import (
    INT,
    NUMBER,
    SIZE,
    STR,
    UNSET,
    Array,
    DeviceValue,
    Dtype,
    DtypeValue,
    Lib,
    NoneValue,
    Number,
    Sequence,
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
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.hazards import fixed_device, refills
from graphsafe.scan.hazards.streams import early_reads
from graphsafe.scan.models import captured_calls, named_calls, numpy_reads, operations, weight_refills
from graphsafe.scan.models.functions import handed_functions, training_functions
from graphsafe.scan.models.op_arguments import device_named, dtype_named, fits_tensors, may_be_true
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.state.own_changes import own_change
from graphsafe.scan.state.provenance import is_plain_parameter

Handler = Callable[[Frame, ast.Call, Tensor, Arguments], Value]

_SIZES = frozenset(("size", "dim", "numel", "nelement"))
_MODEL = re.compile(MODEL)


def method(frame: Frame, node: ast.Call, tensor: Tensor, name: str, arguments: Arguments) -> Value:
    """Return the result of `tensor.name(…)`."""
    if frame.hot and tensor.attr is not None and name.endswith("_") and not name.startswith("_"):
        frame.engine.note(StepInput(tensor.attr))
    if name.endswith("_") and (frame.hot or frame.between):
        weight_refills.note(frame, node, tensor)
    named_calls.note(frame, node, f"torch.Tensor.{name}")
    special = _METHODS.get(name)
    if special is not None:
        return special(frame, node, tensor, arguments)
    op = frame.ops.method(name)
    if op is None:
        # No tensor method with this name is known, so the receiver may be some other object.
        return replace(tensor, dtype=None, ndim=None, fresh=True, attr=None, name=None, certain=False)
    return operations.by_table(frame, node, op, name, tensor, arguments)


def method_of_unknown(frame: Frame, node: ast.Call, receiver: Value, name: str, arguments: Arguments) -> Value:
    """Return the result of a method of an unknown value.

    If only tensors have a method with this name, the receiver counts as a tensor.
    """
    if frame.hot and arguments.keywords:
        named_calls.note_arguments(frame, name, arguments)
    unknown = receiver if type(receiver) is Unknown else Unknown(depends_on_step(receiver))
    if name == "pin_memory":
        return Tensor(where="host", pinned=True, step=unknown.step, certain=False)
    if name == "log_every" and arguments.positional:
        return arguments.positional[0]  # torchvision's MetricLogger yields the batches of a loader
    if name == "clip_grad_norm_":
        return Tensor(where="any", ndim=0, step=True)  # FSDP's modules, accelerate and DTensor have this method
    content = _in_batch(frame, node, unknown, name, arguments) if unknown.loaded else None
    if content is not None:
        return content
    on_host = unknown.host or (isinstance(node.func, ast.Attribute) and names_host(node.func.value))
    fits = fits_tensors(node)
    is_op = fits and frame.ops.method(name) is not None
    if on_host and (not is_op or (name in CONTAINER_METHODS and not unknown.compared)):
        return Unknown(unknown.step, host=True)
    guessed = type(receiver) is Unknown and frame.hot and name in frame.ops.tensor_hints("value")
    if type(receiver) is Unknown and not on_host and _is_operand(frame, name, arguments):
        tensor: Tensor | None = Tensor(where="device", step=unknown.step)
    else:
        tensor = _suggested(frame, node, unknown, on_host, guessed, name) if fits else None
    if tensor is not None:
        result = method(frame, node, tensor, name, arguments)
        if unknown.device and not tensor.certain and type(result) is Tensor and result.where == "any":
            # Other objects have such a method too. The methods that code calls on the result may show that the result
            # is a tensor.
            return Unknown(unknown.step, device=True)
        return result
    if name in _SIZES:
        return SIZE if name == "size" and not arguments.positional else INT
    after = unknown_result(arguments)
    assert type(after) is Unknown
    if frame.hot and not on_host and name in ("cuda", "to"):
        # The receiver is a tensor, because a step moves only tensors. Modules were moved before the step.
        target = DeviceValue("device") if name == "cuda" else _asked_of_to(node, Tensor(), arguments)[0]
        after = replace(after, device=after.device or (target is not None and target.where != "host"))
    if after.device:
        # Host state that is passed to an unknown call together with device tensors is assumed to affect the device's
        # work.
        for value in arguments.values():
            frame.use_number(value, "argument", node)
    runs = frame.hot and _MODEL.fullmatch(name) is not None and captured_calls.may_hold_device(arguments)
    made = replace(after, step=after.step or unknown.step, device=after.device or unknown.device or runs)
    handed_functions.read(frame, node, arguments, unknown)
    return captured_calls.of_unknown(frame, made, arguments)


def _in_batch(frame: Frame, node: ast.Call, batch: Unknown, name: str, arguments: Arguments) -> Value | None:
    """Return the contents that a method of a batch returns, or None for other methods. `to` and `cuda` copy the
    batch."""
    if name in ("to", "cuda"):
        # Whether the loader pins its memory is often an option. This matters only if the copy does not block.
        receiver = last_name(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        # The copy is certain for the step's own input. A loop over a loader may instead be an evaluation.
        certain = batch.step or training_functions.is_for_training(frame)
        batch_on_host = Tensor("host", name=receiver or None, certain=certain, maybe_pinned=True)
        _METHODS[name](frame, node, batch_on_host, arguments)
    if name in ("values", "items"):
        return of_elements("list", batch if name == "values" else sequence("tuple", (STR, batch)))
    return batch if name in ("get", "pop", "copy") else None


def _is_operand(frame: Frame, name: str, arguments: Arguments) -> bool:
    """Return whether the receiver of a method must be a device tensor because an argument is one:
    `old_step.dot(grad)`."""
    hints = frame.ops.tensor_hints
    if name not in hints("operand") or name in hints("step-input"):
        return False
    return any(type(one) is Tensor and one.where == "device" and one.certain for one in arguments.positional)


def _suggested(
    frame: Frame, node: ast.Call, receiver: Unknown, on_host: bool, guessed: bool, name: str
) -> Tensor | None:
    """Return the tensor that the receiver of a method certainly or probably is. Return None if there is no evidence for
    a tensor."""
    step, is_op = receiver.step, frame.ops.method(name) is not None
    if receiver.compared and is_op:
        # The receiver is the result of a comparison. A comparison of two numbers would give a bool, which has no such
        # method; so the receiver is a tensor.
        return Tensor(where="any", dtype="bool", step=step)
    if on_host:
        return Tensor(where="host", step=step, certain=False)
    if guessed:
        return Tensor(where="any", step=step, certain=receiver.device)
    if not receiver.device:
        return None
    if name in ("tolist", "numpy"):
        return Tensor(where="any", step=step, certain=False)
    if is_op and name not in CONTAINER_METHODS and name not in _SIZES:
        # The result of an operator is not an object of the project. It is also not a number, because numbers have no
        # such method.
        computed = isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.BinOp)
        computed = computed or name in frame.ops.tensor_hints("step-input")
        return Tensor(where="any", step=step, certain=computed)
    return None


def _reading(how: str, result: Value) -> Handler:
    """Return a handler for a method that copies a tensor's value to the host. Python calls `tensor.__float__()` for
    `float(tensor)`, which is a cast."""

    def handler(frame: Frame, node: ast.Call, tensor: Tensor, arguments: Arguments) -> Value:
        frame.emit_if_on_device("HostRead", how, node, tensor)
        return result

    return handler


def _cpu(frame: Frame, node: ast.Call, tensor: Tensor, arguments: Arguments) -> Value:
    frame.emit_if_on_device("Transfer", "to-host", node, tensor)
    return replace(tensor, where="host", fresh=True, attr=None, pinned=False)


def _numpy(frame: Frame, node: ast.Call, tensor: Tensor, arguments: Arguments) -> Value:
    if may_be_true(arguments.get(0, "force")):
        return numpy_reads.copied(frame, node, [tensor])
    return numpy_reads.read(frame, node, [tensor])


def _to(frame: Frame, node: ast.Call, tensor: Tensor, arguments: Arguments) -> Value:
    target, dtype = _asked_of_to(node, tensor, arguments)
    fresh = tensor.fresh or dtype != tensor.dtype
    if target is None:
        return replace(tensor, dtype=dtype, fresh=fresh)
    fixed_device.named(frame, node)
    non_blocking = arguments.get(1 if type(arguments.get(0, "")) is not DtypeValue else 9, "non_blocking")
    if type(non_blocking) is DtypeValue:
        non_blocking = arguments.get(2, "non_blocking")
    moved = _moved(frame, node, tensor, target, non_blocking)
    return replace(moved, dtype=dtype, fresh=moved.fresh or fresh)


def _asked_of_to(node: ast.Call, tensor: Tensor, arguments: Arguments) -> tuple[DeviceValue | None, Dtype | None]:
    """Return the device and the dtype that the arguments of `to` name: a device, a dtype, or a tensor that has both."""
    target: DeviceValue | None = None
    dtype = tensor.dtype
    for i, value in enumerate(arguments.positional):
        if type(value) is DtypeValue:
            dtype = value.dtype
        elif i == 0:
            target = device_named(value)
            if type(value) is Tensor:
                dtype = value.dtype
            elif target is None and type(value) is Unknown and _says(node.args[0], "device"):
                target = DeviceValue("any")
            elif target is None and type(value) is Unknown and value.device and not _says(node.args[0], "type"):
                # The argument is another tensor of the step.
                target, dtype = DeviceValue("device"), None
    device = arguments.keywords.get("device")
    if device is not None and type(device) is not NoneValue:
        target = device_named(device) or DeviceValue("any")
    if "dtype" in arguments.keywords:
        dtype = dtype_named(arguments.keywords["dtype"], dtype)
    return target, dtype


def _says(node: ast.expr, word: str) -> bool:
    return word in ast.unparse(node).lower()


def _cuda(frame: Frame, node: ast.Call, tensor: Tensor, arguments: Arguments) -> Value:
    fixed_device.named(frame, node)
    return _moved(frame, node, tensor, DeviceValue("device"), arguments.get(1, "non_blocking"))


def _moved(frame: Frame, node: ast.Call, tensor: Tensor, target: DeviceValue, non_blocking: Value | None) -> Tensor:
    receiver = getattr(node.func, "value", None)
    if tensor.where == "any" and tensor.literal and target.where == "device" and isinstance(receiver, ast.Call):
        # `torch.tensor([n]).cuda()` copies the number, whatever the default device is.
        tensor = replace(tensor, where="host")
    if tensor.where == "host" and target.where != "host":
        if _is_made_empty(node):
            pass  # torch copies nothing and does not wait
        elif not (tensor.pinned and may_be_true(non_blocking)):
            # If a caller has built the tensor, this line only copies it.
            is_given = isinstance(receiver, ast.Name) and is_plain_parameter(frame, receiver.id)
            how = "literal" if tensor.literal and not is_given else "blocking"
            doubtful = target.maybe_host or (tensor.maybe_pinned and may_be_true(non_blocking))
            confidence: Confidence = "likely" if (tensor.certain or tensor.literal) and not doubtful else "possible"
            frame.emit("Transfer", how, node, confidence, None, value=describe(tensor), **_memory(tensor))
        else:
            refills.copied(frame, node, tensor)
        return replace(tensor, where="device", fresh=True, attr=None, literal=False, maybe_host=target.maybe_host)
    if tensor.where != "host" and target.where == "host":
        if not may_be_true(non_blocking):
            sure = tensor.where == "device" or _names_host(node)
            frame.emit("Transfer", "to-host", node, confidence_of(tensor, sure), value=describe(tensor))
        elif tensor.where == "device" and const_of(non_blocking) is True:
            early_reads.landed(frame, node)
        return replace(tensor, where="host", fresh=True, attr=None)
    if tensor.where == "any" and target.where == "device":
        return replace(tensor, where="device")
    return tensor


@memoize_on_node
def _names_host(node: ast.Call) -> bool:
    """Return whether an argument of a call is written as the host: `x.to("cpu")`."""
    return any(one.value == "cpu" for one in inside(node, ast.Constant))


_SAME_SIZE = frozenset("long int short float double half bfloat16 bool to type detach contiguous".split())


@memoize_on_node
def _is_made_empty(node: ast.Call) -> bool:
    """Return whether the receiver of a method call is a tensor without elements: `torch.Tensor([]).long().to(x)`."""
    made = node.func.value if isinstance(node.func, ast.Attribute) else None
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and made.func.attr in _SAME_SIZE:
        made = made.func.value
    data = made.args[0] if isinstance(made, ast.Call) and made.args else None
    return isinstance(data, ast.List) and not data.elts


def _memory(tensor: Tensor) -> Mapping[str, str]:
    return {"memory": "pinned"} if tensor.pinned else {}


def _type(frame: Frame, node: ast.Call, tensor: Tensor, arguments: Arguments) -> Value:
    first = arguments.get(0, "dtype")
    if first is None:
        # In `a.type(b.type())`, the type names the device as well.
        return DeviceValue(tensor.where, maybe_host=tensor.maybe_host)
    if type(first) is DeviceValue:
        return _moved(frame, node, replace(tensor, dtype=None), first, None)
    name = first.name if isinstance(first, Lib) else first.const if isinstance(first, Number) else None
    if isinstance(name, str) and name.endswith("Tensor"):
        # torch.FloatTensor is a type for the host, and torch.cuda.FloatTensor is a type for the device.
        where: Where = "device" if ".cuda." in name else "host"
        return _moved(frame, node, tensor, DeviceValue(where), arguments.get(1, "non_blocking"))
    return replace(tensor, dtype=first.dtype if type(first) is DtypeValue else None)


def _copy(frame: Frame, node: ast.Call, tensor: Tensor, arguments: Arguments) -> Value:
    source = arguments.get(0, "src")
    if source is None:
        return tensor
    origin, certain = as_tensor(source)
    non_blocking = arguments.get(1, "non_blocking")
    if type(source) in (Array, Number):
        # PyTorch converts a number to a host tensor and copies that tensor.
        origin, certain = Tensor(where="host"), True
    if origin is None:
        origin = Tensor(where="any", certain=False)  # an unknown value may be a tensor anywhere
    confidence = confidence_of(origin, certain and tensor.certain)
    if tensor.where != "host" and origin.where == "host":
        if not (origin.pinned and may_be_true(non_blocking)):
            # If the source is a name, its values were computed on another line, and this line only copies them.
            built_here = origin.literal and not (node.args and isinstance(node.args[0], (ast.Name, ast.Attribute)))
            how = "literal" if built_here else "blocking"
            if origin.maybe_pinned and may_be_true(non_blocking):
                confidence = "possible"
            frame.emit("Transfer", how, node, confidence, None, value=describe(source), **_memory(origin))
        else:
            refills.copied(frame, node, origin)
    elif tensor.where == "host" and origin.where != "host":
        if not (tensor.pinned and may_be_true(non_blocking)):
            if origin.where == "device":
                frame.emit("Transfer", "to-host", node, confidence, value=describe(source))
        elif const_of(non_blocking) is True and isinstance(node.func, ast.Attribute):
            # Code does not copy a host tensor into pinned memory without waiting, so the source is on the device.
            early_reads.landed(frame, node, node.func.value)
    return replace(tensor, step=tensor.step or origin.step)


def _pin_memory(frame: Frame, node: ast.Call, tensor: Tensor, arguments: Arguments) -> Value:
    if not tensor.pinned:
        frame.emit("Alloc", "pinned", node, value=describe(tensor))
    return replace(tensor, where="host", pinned=True, fresh=True, attr=None, maybe_pinned=False)


def _resize(frame: Frame, node: ast.Call, tensor: Tensor, arguments: Arguments) -> Value:
    """Read `self.out.resize_(n)`. If the memory of a tensor that outlives the step is too small, the tensor gets new
    memory."""
    is_kept = frame.hot and tensor.attr is not None and not tensor.fresh
    if is_kept and tensor.attr is not None and any(map(_may_vary, arguments.positional)):
        text = tensor.name or ast.unparse(node.func.value)  # type: ignore[attr-defined]
        change = own_change(frame, node, tensor.attr, text, tensor, keyed=False, grows=True, outgrown=True)
        frame.engine.note(change)
    op = frame.ops.method("resize_")
    return tensor if op is None else operations.by_table(frame, node, op, "resize_", tensor, arguments)


def _may_vary(size: Value) -> bool:
    """Return whether a size may differ from step to step. A number in an attribute counts as a setting, which does not
    vary."""
    if type(size) is Number:
        return size.const is UNSET and not size.state
    if type(size) is Sequence:
        return any(map(_may_vary, size.items or (size.elem,)))
    return depends_on_step(size)


def _size(frame: Frame, node: ast.Call, tensor: Tensor, arguments: Arguments) -> Value:
    return INT if arguments.positional or arguments.keywords else SIZE


_METHODS = {
    "item": _reading("method", NUMBER),
    "tolist": _reading("method", of_elements("list", NUMBER)),
    "cpu": _cpu,
    "numpy": _numpy,
    **{f"__{name}__": _reading("cast", NUMBER) for name in ("bool", "int", "float", "complex", "index")},
    "__array__": lambda frame, node, tensor, _: numpy_reads.read(frame, node, [tensor]),
    "to": _to,
    "type_as": _to,
    "cuda": _cuda,
    "type": _type,
    "copy_": _copy,
    "pin_memory": _pin_memory,
    "resize_": _resize,
    "size": _size,
}
