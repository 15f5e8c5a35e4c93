"""Operations of the op table: what a call of one does, as events, and what it returns."""

from __future__ import annotations

import ast
from collections.abc import Sequence as Seq
from typing import TYPE_CHECKING

from graphsafe.optable import UNKNOWN as NO_LITERAL
from graphsafe.optable import Argument, ArgumentKind, Call, EffectKind, Op, Result
from graphsafe.report.model import Confidence
from graphsafe.scan.checks import draws, fixed_device, host_clock
from graphsafe.scan.domain.events import EventKind
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.joins import sequence
from graphsafe.scan.domain.values import (
    NONE,
    NUMBER,
    SIZE,
    UNKNOWN,
    UNSET,
    Array,
    DeviceValue,
    Dict,
    Dtype,
    DtypeValue,
    NoneValue,
    Number,
    RuntimeObject,
    Sequence,
    Tensor,
    Unknown,
    Value,
    Where,
    all_maybe_host,
    as_tensor,
    depends_on_step,
    describe,
    may_be_none,
    of_elements,
    options,
    together,
)
from graphsafe.scan.symbols.default_device import default_device_covers

if TYPE_CHECKING:
    from graphsafe.scan.domain.arguments import Arguments
    from graphsafe.scan.interpreter.call_frame import Frame
    from graphsafe.scan.interpreter.engine import Engine

EVENT_OF_EFFECT: dict[EffectKind, EventKind] = {
    "reads-host": "HostRead",
    "branches": "Branch",
    "hidden-sync": "HostRead",
    "waits": "StreamOp",
    "dynamic-shape": "Extent",
    "copies": "Transfer",
    "allocates": "Alloc",
    "random": "Rng",
    "host-state": "AttrWrite",
}
"""The kind of event by which scan shows an effect of the op table."""

_DISTRIBUTIONS = "torch.distributions."
UNCHECKED = "[validate_args=False]"
"What follows the name of a distribution whose methods check no values."
SIZE_READS = frozenset(("size", "narrow", "split"))
"For these effects the host reads the size arguments, not the tensor itself."


def is_true(value: Value | None) -> bool:
    return type(value) is Number and value.const is True


def may_be_true(value: Value | None) -> bool:
    """Given, and not known to be false."""
    return value is not None and not (type(value) is Number and value.const is not UNSET and not value.const)


def device_named(value: Value | None) -> DeviceValue | None:
    """The device that an argument names: a torch.device, a string, an ordinal."""
    for option in options(value) if value is not None else ():
        if type(option) is DeviceValue:
            return option
        if type(option) is Number:
            if option.overridable_by == "platform":
                return DeviceValue("any")
            if isinstance(option.const, str):
                base = option.const.partition(":")[0]
                if base in ("cpu", "meta", "mps"):
                    return DeviceValue("host")
                if base in ("cuda", "xpu", "hpu", "npu", "xla"):
                    return DeviceValue("device", option.const)
                return None
            if type(option.const) is int or option.type == "int":
                return DeviceValue("device")
            if option.type == "str":
                return DeviceValue("any")
        if type(option) is Tensor:
            return DeviceValue(option.where)
    return None


def by_table(
    engine: Engine, frame: Frame, node: ast.Call, op: Op, name: str, receiver: Tensor | None, arguments: Arguments
) -> Value:
    """A call of an op of the table: its effects as events, its result as a value."""
    values: list[Value] = [*arguments.positional]
    if receiver is not None:
        values.insert(0, receiver)
    everything = [*values, *arguments.keywords.values()]
    involved = [tensor for value in everything for tensor in tensors_in(value)]
    where = _placement(engine, frame, op, involved, everything, arguments)
    if frame.hot:
        _note_state(engine, frame, node, involved, everything)
        if op.placement == "argument":
            fixed_device.named(engine, frame, node)
    call = _call(op, node, values, arguments, receiver is not None, where)
    if frame.hot and op.effects:
        _emit_effects(engine, frame, node, op, call, name, where, receiver, involved, everything, arguments)
    if any(effect.kind == "host-value" for effect in op.effects):
        return host_clock.read(engine, frame, node)
    if name.startswith(_DISTRIBUTIONS) and any(tensor.where != "host" for tensor in involved):
        return RuntimeObject(
            "library", name if any(hit.effect.rule for hit in op.effects_of(call)) else f"{name}{UNCHECKED}"
        )
    return _result(op.result_of(call), op, where, involved, receiver, values, arguments, call)


def elementwise(tensors: tuple[Tensor, ...], dtype: Dtype | None) -> Tensor:
    """The new tensor that an elementwise operation makes of these."""
    ndim: int | None = 0
    for tensor in tensors:
        ndim = None if ndim is None or tensor.ndim is None else max(ndim, tensor.ndim)
    return Tensor(
        where=together(tensors),
        dtype=dtype,
        ndim=ndim,
        step=any(tensor.step for tensor in tensors),
        fresh=True,
        certain=any(tensor.certain for tensor in tensors),
        maybe_host=all_maybe_host(tensors),
    )


def tensors_in(value: Value) -> list[Tensor]:
    if type(value) is Tensor:
        return [value]
    if type(value) is Sequence:
        return [tensor for item in (value.items or (value.elem,)) for tensor in tensors_in(item)]
    tensor, _ = as_tensor(value)
    return [tensor] if tensor is not None else []


def _may_be_host(device: Value | None) -> bool:
    return type(device) is DeviceValue and device.maybe_host


def _is_somewhere(op: Op, where: Where, arguments: Arguments) -> bool:
    """Whether what is made of no tensor may be on the host: its device may be, or the default device is not known."""
    return _may_be_host(arguments.keywords.get("device")) or (where == "any" and op.placement == "argument")


def _placement(
    engine: Engine, frame: Frame, op: Op, involved: list[Tensor], values: Seq[Value], arguments: Arguments
) -> Where:
    if op.placement == "host":
        return "host"
    if op.placement == "accelerator":
        return "device"
    given = arguments.keywords.get("device")
    named = device_named(given)
    if named is not None and type(given) is not NoneValue:
        return "device" if named.where == "any" else named.where
    if type(given) is Unknown:
        return "device"
    if op.placement == "argument" and (not involved or op.is_factory):
        # A tensor among the sizes does not decide where the result is.
        if frame.contexts and frame.contexts[-1] in ("device", "host"):
            return frame.contexts[-1]  # type: ignore[return-value]
        of_models, of_all = default_device_covers(engine.project.files, frame.path)
        makes_model = of_models and not frame.hot and (frame.owner is None or engine.attributes.is_module(frame.owner))
        return "any" if of_all or makes_model else "host"
    if involved:
        return together(involved)
    if values and all(type(value) in (Number, DtypeValue, NoneValue) for value in values):
        # What torch makes of Python's numbers alone.
        return "host"
    return "any"


def _note_state(engine: Engine, frame: Frame, node: ast.Call, involved: list[Tensor], values: Seq[Value]) -> None:
    for value in values:
        for item in value.items or (value.elem,) if type(value) is Sequence else (value,):
            engine.use_number(frame, item, "argument", node)


def _emit_effects(
    engine: Engine,
    frame: Frame,
    node: ast.Call,
    op: Op,
    call: Call,
    name: str,
    where: Where,
    receiver: Tensor | None,
    involved: list[Tensor],
    values: Seq[Value],
    arguments: Arguments,
) -> None:
    on_device = where != "host" or together(involved) != "host"
    unknown = not involved and any(type(value) is Unknown and value.device for value in values)
    guessed = (
        (receiver is not None and not receiver.certain) or all_maybe_host(involved) or any(map(_may_be_host, values))
    )
    subject = next((tensor for tensor in involved if tensor.where != "host"), None)
    for hit in op.effects_of(call):
        effect = hit.effect
        if effect.how == "draw" and where == "host" and op.placement == "argument":
            engine.emit(frame, "Rng", "host-random", node)
        if effect.how == "private-generator" and draws.is_registered(engine, frame, node):
            continue
        if effect.rule is None or effect.kind not in EVENT_OF_EFFECT:
            continue
        if not effect.anywhere and not on_device and not unknown:
            continue
        if effect.kind == "allocates" and not effect.anywhere and where == "host":
            continue
        sizes = [tensor for tensor in involved if tensor is not receiver] if effect.how in SIZE_READS else []
        doubtful = bool(sizes) and (all_maybe_host(sizes) or not any(tensor.certain for tensor in sizes))
        confidence: Confidence = "likely" if hit.certain and not guessed and not doubtful else "possible"
        if not involved and op.placement == "same" and not unknown and not effect.anywhere:
            confidence = "possible"
        if effect.how == "private-generator" and may_be_none(arguments.keywords.get("generator", NONE)) is not False:
            # An option that defaults to None is mostly not given.
            confidence = "possible"
        words = {"value": describe(subject) if subject is not None else "a device tensor", "op": name}
        if op.copies_values and arguments.positional and _is_known_number(arguments.positional[0]):
            words["data"] = "a number"
        engine.emit(frame, EVENT_OF_EFFECT[effect.kind], effect.how, node, confidence, None, **words)


def _is_known_number(value: Value) -> bool:
    return type(value) is Number and value.type in ("int", "float", "bool")


def _call(op: Op, node: ast.Call, values: list[Value], arguments: Arguments, has_receiver: bool, where: Where) -> Call:
    if not op.effects and not op.cases:
        return Call()
    texts = _needs_text(op)
    nodes: list[ast.expr | None] = list(node.args)
    if has_receiver and isinstance(node.func, ast.Attribute):
        nodes.insert(0, node.func.value)
    positional = []
    for i, value in enumerate(values):
        text = ""
        if texts and i < len(nodes):
            part = nodes[i]
            text = ast.unparse(part) if part is not None else ""
        positional.append(argument(value, text))
    keywords = {name: argument(value) for name, value in arguments.keywords.items()}
    if where == "device" and op.placement == "argument":
        # Also where `with torch.device("cuda")` says it for the call.
        keywords.setdefault("device", Argument("device"))
    return Call(positional, keywords, arguments.open)


def _needs_text(op: Op) -> bool:
    return any(
        (effect.unless is not None and effect.unless.same) or (effect.when is not None and effect.when.same)
        for effect in op.effects
    )


def argument(value: Value, text: str = "") -> Argument:
    """A value as the op table asks about it."""
    if isinstance(value, Tensor):
        if value.where == "host":
            return Argument("host-tensor", text=text)
        return Argument("mask" if value.dtype == "bool" else "tensor", text=text)
    if isinstance(value, Number):
        literal = NO_LITERAL if value.const is UNSET else value.const
        name: ArgumentKind = "string" if value.type == "str" else "bool" if value.type == "bool" else "number"
        return Argument(name, literal, text)
    if isinstance(value, NoneValue):
        return Argument("none", None, text)
    if isinstance(value, Sequence):
        if value.items == ():
            return Argument("empty", text=text)
        items = value.items if value.items is not None else (value.elem,)
        kinds = {argument(item).kind for item in items}
        if kinds == {"host-tensor"}:
            return Argument("host-tensor", text=text)
        return Argument("mask" if "mask" in kinds else "tensors" if "tensor" in kinds else "sequence", text=text)
    if isinstance(value, DtypeValue):
        dtype = value.dtype
        return Argument("dtype", NO_LITERAL if dtype is None else dtype, text)
    if isinstance(value, DeviceValue):
        return Argument("host-device" if value.where == "host" else "device", text=text)
    if isinstance(value, (Array, Dict, RuntimeObject)):
        return Argument("other", text=text)
    tensor_or_none, certain = as_tensor(value)
    if tensor_or_none is not None and certain:
        return argument(tensor_or_none, text)
    return Argument(None, text=text)


def _is_pinned(value: Value | None) -> bool:
    return type(value) is Tensor and value.pinned


def _result(
    result: Result,
    op: Op,
    where: Where,
    involved: list[Tensor],
    receiver: Tensor | None,
    values: list[Value],
    arguments: Arguments,
    call: Call,
) -> Value:
    step = not op.valueless and (any(tensor.step for tensor in involved) or any(map(depends_on_step, values)))
    first = receiver if receiver is not None else involved[0] if involved else None

    def made(kind: str, ndim: int | None = None) -> Value:
        if kind in ("host",):
            return NUMBER
        if kind == "shape":
            return SIZE
        dtype: Dtype | None = {"mask": "bool", "int": "int", "float": "float"}.get(kind)  # type: ignore[assignment]
        if kind == "same":
            dtype = first.dtype if first is not None else None
        shares = op.view and first is not None
        return Tensor(
            where=where,
            dtype=dtype,
            ndim=ndim,
            step=step,
            fresh=not shares,
            attr=first.attr if shares and first is not None else None,
            name=first.name if shares and first is not None else None,
            pinned=may_be_true(arguments.keywords.get("pin_memory"))
            or (shares and first is not None and first.pinned)
            or _is_pinned(arguments.keywords.get("out")),
            literal=op.copies_values and where == "host",
            # torch takes nothing but tensors: what it was given is one, whatever suggested it.
            certain=receiver is None or receiver.certain,
            maybe_host=all_maybe_host(involved) or (not involved and _is_somewhere(op, where, arguments)),
        )

    if result.kind == "none":
        return NONE
    if result.kind == "object":
        return Unknown(step, True)
    if result.kind == "self":
        # In place: what it is computed from is in it now.
        return UNKNOWN if first is None else replace(first, step=first.step or step)
    if result.kind == "host":
        return NUMBER
    if result.kind == "shape":
        return SIZE
    if result.kind == "reduction":
        return made(result.of, 0)
    if result.kind == "tuple":
        if len(result.elements) == 1:
            return of_elements("tuple", made(result.elements[0]))
        return sequence("tuple", [made(kind) for kind in result.elements])
    return made(result.kind, _ndim(op, result, involved, values, arguments, first))


def _ndim(
    op: Op, result: Result, involved: list[Tensor], values: list[Value], arguments: Arguments, first: Tensor | None
) -> int | None:
    if result.ndim is not None:
        return result.ndim
    if op.pointwise:
        ndims = [tensor.ndim for tensor in involved]
        return None if None in ndims or not ndims else max(n for n in ndims if n is not None)
    if op.ndim == "size":
        return _ndim_of_size(op, values, arguments)
    if op.ndim == "same" or op.ndim == "one-more":
        return None if first is None or first.ndim is None else first.ndim + (op.ndim == "one-more")
    if op.ndim is not None:
        return op.ndim
    if op.copies_values:
        data = values[0] if values else UNKNOWN
        if type(data) is Number:
            return 0
        return 1 if type(data) is Sequence and type(data.elem) is Number else None
    return None


def _ndim_of_size(op: Op, values: list[Value], arguments: Arguments) -> int | None:
    size = arguments.keywords.get("size")
    sizes = values if size is None else [size]
    listed = next((value for value in sizes if type(value) is Sequence), None)
    if listed is not None:
        return len(listed.items) if listed.items is not None else None
    spread = "size*" in op.params and len(sizes) > 0 and all(type(value) is Number for value in sizes)
    return len(sizes) if spread else None
