"""Indexing: which subscripts of a tensor make the host wait, by reading and by writing."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import TYPE_CHECKING

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.held import entry, state_of
from graphsafe.scan.domain.joins import join_all
from graphsafe.scan.domain.naming import MASK_NAME
from graphsafe.scan.domain.summary import StepInput
from graphsafe.scan.domain.values import (
    NUMBER,
    UNKNOWN,
    UNSET,
    Array,
    ClassValue,
    Dict,
    Function,
    Instance,
    Lib,
    NoneValue,
    Number,
    RuntimeObject,
    Sequence,
    Tensor,
    Union,
    Unknown,
    Value,
    as_tensor,
    confidence_of,
    describe,
    holds_device,
    number,
    options,
)
from graphsafe.scan.interpreter import members
from graphsafe.scan.sources.node_memo import source_text
from graphsafe.scan.symbols.index import dotted

if TYPE_CHECKING:
    from graphsafe.scan.interpreter.call_frame import Frame
    from graphsafe.scan.interpreter.engine import Engine


def subscript(engine: Engine, frame: Frame, node: ast.Subscript) -> Value:
    owner = engine.evaluate(frame, node.value)
    owners: Seq[Value] = options(owner)
    if isinstance(node.slice, ast.Constant):
        owners = members.having_field(engine, frame, owners, number(node.slice.value))
    if len(owners) > 1 and any(type(option) is Tensor for option in owners):
        index = UNKNOWN if isinstance(node.slice, ast.Slice) else engine.evaluate_quietly(frame, node.slice)
        if as_tensor(index)[0] is not None:
            # A list takes no tensor of indices, which the index of something that may be a tensor is most often.
            owners = [option for option in owners if type(option) is not Sequence]
    found = [_load(engine, frame, node, option) for option in owners]
    return join_all(found) if found else UNKNOWN


def _load(engine: Engine, frame: Frame, node: ast.Subscript, owner: Value) -> Value:
    if isinstance(owner, Tensor):
        return _load_tensor(engine, frame, node, owner)
    if isinstance(owner, (Lib, ClassValue)):
        return owner
    index = UNKNOWN if isinstance(node.slice, ast.Slice) else engine.evaluate(frame, node.slice)
    if isinstance(node.slice, ast.Slice):
        bounds = _slice_bounds(engine, frame, node.slice)
        if isinstance(owner, Sequence):
            return _slice_sequence(owner, bounds)
        return owner
    _wait_for_index(engine, frame, node, index, owner)
    if isinstance(owner, Sequence):
        const = index.const if type(index) is Number else UNSET
        if owner.items is not None and type(const) is int and -len(owner.items) <= const < len(owner.items):
            chosen = owner.items[const]
        else:
            chosen = owner.elem
        return _chosen_by(engine, frame, node, chosen, index)
    if isinstance(owner, Dict):
        return _chosen_by(engine, frame, node, _entry(owner, index), index)
    if isinstance(owner, Array):
        return owner
    if isinstance(owner, Number):
        return NUMBER
    if isinstance(owner, Instance):
        return _item_of_instance(engine, frame, node, owner, index)
    if isinstance(owner, RuntimeObject):
        return Number(overridable_by="environment") if owner.kind == "environment" else Unknown(device=True)
    if isinstance(owner, Unknown):
        tensor, _ = _index_tensor(index)
        if owner.device and tensor is not None and tensor.dtype == "bool" and tensor.where != "host":
            engine.emit(frame, "Extent", "mask", node, value=describe(tensor))
        elif owner.device:
            _mask_by_name(engine, frame, node, node.slice, index)
        return replace(owner, step=owner.step or (tensor is not None and tensor.step))
    return UNKNOWN


def _entry(owner: Dict, index: Value) -> Value:
    if type(index) is not Number or index.const is UNSET:
        return owner.elem
    known: dict[object, Value] = dict(owner.items)
    try:
        if index.const in known:
            return known[index.const]
    except TypeError:
        return owner.elem
    if owner.held_by is not None and type(owner.elem) is Unknown and isinstance(index.const, str):
        return replace(owner.elem, state=entry(owner.held_by, index.const))
    return owner.elem


def _chosen_by(engine: Engine, frame: Frame, node: ast.Subscript, value: Value, index: Value) -> Value:
    """An element: which one it is depends on the state that its index comes from."""
    state = state_of(index)
    if state is None:
        return value
    if type(value) is Number:
        return replace(value, state=state, const=UNSET)
    if holds_device(value) or isinstance(value, (Instance, Function, Union)):
        engine.use_number(frame, index, "index", node)
    return value


def _index_tensor(value: Value) -> tuple[Tensor | None, bool]:
    """The tensor that an index is: who indexes with a comparison has compared tensors."""
    if type(value) is Unknown and value.compared:
        return Tensor(where="any", dtype="bool", step=value.step), True
    return as_tensor(value)


def _item_of_instance(engine: Engine, frame: Frame, node: ast.Subscript, owner: Instance, index: Value) -> Value:
    name = members.field(engine, frame, owner, index)
    if name is not None:
        return members.of_instance(engine, frame, node, owner, name, source_text(node))
    method = engine.project.find_method(owner.ref, "__getitem__")
    if method is None:
        return Unknown(owner.step, owner.step)
    return engine.call(frame, node, Function(method, owner), Arguments((index,)))


def _mask_by_name(engine: Engine, frame: Frame, node: ast.Subscript, part: ast.expr, index: Value) -> None:
    """What came out of an unknown call on the device and is called a mask is taken for one."""
    if type(index) is not Unknown or not index.device:
        return
    if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Invert):
        name = dotted(part.operand)
        is_mask = name is not None and "mask" in name
    else:
        name = dotted(part)
        is_mask = name is not None and MASK_NAME.search(name) is not None
    if is_mask:
        engine.emit(frame, "Extent", "mask", node, value=f"`{name}`")


def _wait_for_index(engine: Engine, frame: Frame, node: ast.Subscript, index: Value, owner: Value) -> None:
    """A list or tuple calls `__index__`, which reads the device."""

    tensor, certain = as_tensor(index)
    if isinstance(owner, Sequence) and tensor is not None and tensor.where != "host":
        engine.emit(frame, "HostRead", "index", node, confidence_of(tensor, certain), value=describe(index))


def _slice_bounds(engine: Engine, frame: Frame, node: ast.Slice) -> tuple[Value | None, ...]:
    return tuple(None if part is None else engine.evaluate(frame, part) for part in (node.lower, node.upper, node.step))


def _slice_sequence(owner: Sequence, bounds: tuple[Value | None, ...]) -> Value:
    consts = [None if bound is None else bound.const if type(bound) is Number else UNSET for bound in bounds]
    if owner.items is not None and UNSET not in consts and all(c is None or type(c) is int for c in consts):
        try:
            items = owner.items[slice(*consts)]  # type: ignore[arg-type]
        except ValueError:
            items = owner.items
        return replace(owner, items=items, elem=join_all(items) if items else owner.elem, held_by=None)
    return replace(owner, items=None, held_by=None)


def _parts(node: ast.expr) -> list[ast.expr]:
    return list(node.elts) if isinstance(node, ast.Tuple) else [node]


def _load_tensor(engine: Engine, frame: Frame, node: ast.Subscript, tensor: Tensor) -> Value:
    dropped, known, gathers = _indices(engine, frame, node, tensor, store=False)
    if gathers:
        return Tensor(
            where=tensor.where,
            dtype=tensor.dtype,
            ndim=None,
            step=tensor.step or gathers == "step",
            fresh=True,
            certain=tensor.certain,
            maybe_host=tensor.maybe_host,
        )
    ndim = tensor.ndim - dropped if known and tensor.ndim is not None else None
    name = None if tensor.name is None else f"{tensor.name}[…]"
    # A copy from every other element is not dense, and PyTorch stages it through pageable memory.
    dense = not any(isinstance(part, ast.Slice) and part.step is not None for part in _parts(node.slice))
    return replace(
        tensor,
        ndim=ndim if ndim is None or ndim >= 0 else None,
        name=name,
        literal=False,
        pinned=tensor.pinned and dense,
    )


def _indices(engine: Engine, frame: Frame, node: ast.Subscript, tensor: Tensor, store: bool) -> tuple[int, bool, str]:
    """How many dimensions integers drop, whether that is all known, and whether tensors gather (`step`, `other`)."""
    dropped, known, gathers = 0, True, ""
    on_device = tensor.where != "host"
    for part in _parts(node.slice):
        if isinstance(part, ast.Slice):
            for bound_node in (part.lower, part.upper, part.step):
                if bound_node is None:
                    continue
                bound = engine.evaluate(frame, bound_node)
                index, certain = as_tensor(bound)
                if index is not None and index.where != "host":
                    engine.emit(
                        frame, "Extent", "slice", bound_node, confidence_of(index, certain), value=describe(bound)
                    )
                engine.use_number(frame, bound, "index", bound_node)
            continue
        value = engine.evaluate(frame, part)
        single = options(value)
        option = single[0] if len(single) == 1 else value
        if type(option) is NoneValue or (isinstance(part, ast.Constant) and part.value is None):
            dropped -= 1
            continue
        if type(option) is Number:
            if option.const is Ellipsis:
                known = known and tensor.ndim is not None
            elif isinstance(option.const, bool):
                dropped -= 1
            else:
                dropped += 1
                engine.use_number(frame, option, "index", part)
            continue
        index, certain = _index_tensor(value)
        if index is not None:
            gathers = _tensor_index(engine, frame, node, part, index, certain, on_device, store) or gathers
            if index.ndim == 0 and index.dtype != "bool":
                dropped += 1
                gathers = ""
            continue
        if isinstance(option, Sequence) and on_device and option.kind != "set":
            _sequence_index(engine, frame, node, part, option, store)
            gathers = "other"
            continue
        if type(option) is Array and on_device:
            # What is indexed by an array is mostly a tensor of the host.
            on_host = tensor.where != "device"
            engine.emit(
                frame, "Transfer", "index", node, "possible" if on_host else "likely", None, value="a numpy array"
            )
            gathers = "other"
            continue
        known = False
        gathers = gathers or ("unknown" if type(option) is Unknown and option.device else "")
        if not store and on_device:
            _mask_by_name(engine, frame, node, part, option)
    return dropped, known, "" if gathers == "unknown" else gathers


def _sequence_index(
    engine: Engine, frame: Frame, node: ast.Subscript, part: ast.expr, index: Sequence, store: bool
) -> None:
    """`x[[0, 1]]` sends a list; a tuple is one index a dimension, as `nonzero(as_tuple=True)` returns them."""
    inner, certain = as_tensor(index.elem)
    if inner is None or inner.where == "host":
        if index.items != () and (index.kind in ("list", "iterator") or isinstance(part, ast.List)):
            engine.emit(frame, "Transfer", "index", node, value="a Python list")
    elif index.kind == "tuple":
        _tensor_index(engine, frame, node, part, inner, certain, True, store)
    elif inner.ndim == 0:
        engine.emit(frame, "HostRead", "index", node, confidence_of(inner, certain), value=describe(index.elem))


def _tensor_index(
    engine: Engine,
    frame: Frame,
    node: ast.Subscript,
    part: ast.expr,
    index: Tensor,
    certain: bool,
    on_device: bool,
    store: bool,
) -> str:
    confidence = confidence_of(index, certain)
    gathers = "step" if index.step else "other"
    if not on_device:
        if index.where == "device" and index.dtype != "bool":
            engine.emit(frame, "Transfer", "to-host", node, confidence, value=describe(index))
        return gathers
    if index.where == "host":
        if index.ndim != 0 or index.dtype == "bool":
            engine.emit(frame, "Transfer", "index", node, confidence, value=describe(index))
        return gathers
    if index.dtype == "bool":
        if not store:
            engine.emit(frame, "Extent", "mask", node, confidence, value=describe(index))
    elif index.ndim == 0:
        engine.emit(frame, "HostRead", "index", part, confidence, value=describe(index))
    return gathers


def subscript_store(
    engine: Engine, frame: Frame, target: ast.Subscript, owner: Value, value: Value, node: ast.AST
) -> bool:
    """`owner[…] = value` for a tensor; False where `owner` is none."""
    tensor, certain = as_tensor(owner)
    if tensor is None:
        return False
    engine.use_number(frame, value, "operand", node)
    if frame.hot and tensor.attr is not None:
        engine.note(StepInput(tensor.attr))
    if tensor.where == "host":
        source, source_certain = as_tensor(value)
        if source is not None and source.where == "device":
            engine.emit(
                frame, "Transfer", "to-host", node, confidence_of(source, source_certain), value=describe(value)
            )
        for part in _parts(target.slice):
            engine.evaluate(frame, part)
        return True
    masks = _mask_parts(engine, frame, target)
    dropped, known, gathers = _indices(engine, frame, target, tensor, store=True)
    source, source_certain = as_tensor(value)
    only_integers = not gathers and known and _only_integers(target.slice)
    # PyTorch copies a host value to the device only where the selected place is 0-d; elsewhere it fills.
    single = only_integers and (tensor.ndim is None or tensor.ndim == dropped)
    confidence = confidence_of(tensor, certain)
    if masks:
        if source is not None and source.where != "host":
            engine.emit(frame, "Extent", "mask-store", node, confidence, value=describe(masks[0]))
        elif source is not None and source.ndim != 0:
            engine.emit(frame, "Store", "host-tensor", node, confidence, value=describe(value))
        return True
    if source is not None:
        if source.where == "host" and (source.ndim != 0 or single or gathers):
            engine.emit(frame, "Store", "host-tensor", node, confidence, None, value=describe(value), **_place(single))
    elif type(value) is Number or type(value) is Array:
        # Through an index tensor, index_put_ first moves the value to the device; a mask would fill.
        if single or gathers:
            doubt = confidence if single or _indexed_by_integers(engine, frame, target) else "possible"
            engine.emit(frame, "Store", "scalar", node, doubt, None, value="a Python value", **_place(single))
    elif type(value) is Sequence and as_tensor(value.elem)[0] is None and type(value.elem) is Number:
        engine.emit(frame, "Transfer", "literal", node, confidence, value="a Python list")
    return True


def _place(single: bool) -> Mapping[str, str]:
    return {"place": "one element"} if single else {}


def _only_integers(node: ast.expr) -> bool:
    return not any(
        isinstance(part, ast.Slice) or (isinstance(part, ast.Constant) and part.value in (None, Ellipsis))
        for part in _parts(node)
    )


def _index_tensors(engine: Engine, frame: Frame, target: ast.Subscript) -> list[tuple[Value, Tensor]]:
    found = []
    for part in _parts(target.slice):
        if not isinstance(part, ast.Slice):
            value = engine.evaluate_quietly(frame, part)
            tensor, _ = _index_tensor(value)
            if tensor is not None and tensor.where != "host":
                found.append((value, tensor))
    return found


def _indexed_by_integers(engine: Engine, frame: Frame, target: ast.Subscript) -> bool:
    return all(tensor.dtype == "int" for _, tensor in _index_tensors(engine, frame, target))


def _mask_parts(engine: Engine, frame: Frame, target: ast.Subscript) -> list[Value]:
    return [value for value, tensor in _index_tensors(engine, frame, target) if tensor.dtype == "bool"]
