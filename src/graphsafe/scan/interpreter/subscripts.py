"""Subscripts: the values that they load, the stores into tensors, and the waits and copies that loads and stores
cause."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from collections.abc import Sequence as Seq

from graphsafe.report.model import Confidence
from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.held import state_of
from graphsafe.scan.domain.joins import join_all
from graphsafe.scan.domain.numbers import both_states, const_of, entry
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
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.interpreter import members
from graphsafe.scan.interpreter.indices import Index, emit_mask_by_name, index_tensor, parts_of
from graphsafe.scan.models import protocols
from graphsafe.scan.models.functions.builtin_functions import SLICE
from graphsafe.scan.sources.node_memo import source_text


def subscript(frame: Frame, node: ast.Subscript) -> Value:
    owner = frame.evaluate(node.value)
    if type(owner) is Unknown and owner.device and _cuts_dimensions(node.slice):
        # Lists and dicts accept no tuple of slices, so the unknown value is a tensor.
        owner = Tensor(where="any", step=owner.step)
    owners: Seq[Value] = options(owner)
    if isinstance(node.slice, ast.Constant):
        owners = members.having_field(frame, owners, number(node.slice.value))
    if len(owners) > 1 and any(type(option) is Tensor for option in owners):
        index = UNKNOWN if isinstance(node.slice, ast.Slice) else frame.evaluate_quietly(node.slice)
        if as_tensor(index)[0] is not None:
            # An index that is a tensor shows that the owner is a tensor and not a list.
            owners = [option for option in owners if type(option) is not Sequence]
    found = [_load(frame, node, option) for option in owners]
    return join_all(found) if found else UNKNOWN


def _cuts_dimensions(index: ast.expr) -> bool:
    """Return whether an index is a tuple with slices or an ellipsis: `x[:, 0]`."""
    parts = parts_of(index) if isinstance(index, ast.Tuple) else ()
    return any(isinstance(part, ast.Slice) or (isinstance(part, ast.Constant) and part.value is ...) for part in parts)


def _load(frame: Frame, node: ast.Subscript, owner: Value) -> Value:
    if isinstance(owner, Tensor):
        return _load_tensor(frame, node, owner)
    if isinstance(owner, (Lib, ClassValue)):
        return owner
    if type(owner) is Instance and isinstance(node.slice, ast.Slice):
        made = protocols.called(frame, node, owner, "__getitem__", arguments=Arguments((index_of(frame, node),)))
        return owner if made is None or type(made) is Unknown else made
    if isinstance(node.slice, ast.Slice):
        bounds = _slice_bounds(frame, node.slice, owner)
        return _slice_sequence(owner, bounds) if isinstance(owner, Sequence) else owner
    index = frame.evaluate(node.slice)
    if isinstance(owner, Sequence):
        _wait_for_index(frame, node, index)
        return _chosen_by(frame, node, _item(owner, index), index)
    if isinstance(owner, Dict):
        protocols.hashed(frame, node, index)
        name = const_of(index)
        if frame.hot and owner.held_by is not None and isinstance(name, str):
            frame.engine.note_read(frame, entry(owner.held_by, name))
        return _chosen_by(frame, node, _entry(owner, index), index)
    if isinstance(owner, Array):
        return owner
    if isinstance(owner, Number):
        return NUMBER
    if isinstance(owner, Instance):
        return _item_of_instance(frame, node, owner, index)
    if isinstance(owner, RuntimeObject):
        return Number(overridable_by="environment") if owner.kind == "environment" else Unknown(device=True)
    return _item_of_unknown(frame, node, owner, index) if isinstance(owner, Unknown) else UNKNOWN


def index_of(frame: Frame, node: ast.Subscript) -> Value:
    """Return the value that `__getitem__` and `__setitem__` receive for an index."""
    if not isinstance(node.slice, ast.Slice):
        return frame.evaluate(node.slice)
    _slice_bounds(frame, node.slice, UNKNOWN)
    return SLICE


def _item(owner: Sequence, index: Value) -> Value:
    const = const_of(index)
    if owner.items is not None and type(const) is int and -len(owner.items) <= const < len(owner.items):
        return owner.items[const]
    return owner.elem


def _item_of_unknown(frame: Frame, node: ast.Subscript, owner: Unknown, index: Value) -> Value:
    tensor, certain = index_tensor(index)
    is_mask = tensor is not None and tensor.dtype == "bool" and tensor.where != "host"
    # Only a tensor accepts a device mask as an index.
    if tensor is not None and is_mask and (owner.device or (certain and tensor.certain)):
        frame.emit("Extent", "mask", node, value=describe(tensor))
    elif owner.device:
        emit_mask_by_name(frame, node, node.slice, index)
    return replace(owner, step=owner.step or (tensor is not None and tensor.step))


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
        return replace(owner.elem, state=(entry(owner.held_by, index.const),))
    return owner.elem


def _chosen_by(frame: Frame, node: ast.Subscript, value: Value, index: Value) -> Value:
    """Return an element of a container, marked with the state from which the index was computed."""
    state = state_of(index)
    if not state:
        return value
    if type(value) is Number:
        return replace(value, state=both_states(value.state, state), const=UNSET)
    if type(value) is Sequence and type(value.elem) is Number:
        # A row of a table of numbers: `x, y = self.points[self.active]`.
        items = None if value.items is None else tuple(_chosen_by(frame, node, item, index) for item in value.items)
        return replace(value, items=items, elem=_chosen_by(frame, node, value.elem, index))
    if holds_device(value) or isinstance(value, (Instance, Function, Union)):
        frame.use_number(index, "index", node)
    return value


def _item_of_instance(frame: Frame, node: ast.Subscript, owner: Instance, index: Value) -> Value:
    name = members.field(frame, owner, index)
    if name is not None:
        return members.of_instance(frame, node, owner, name, source_text(node))
    made = protocols.called(frame, node, owner, "__getitem__", arguments=Arguments((index,)))
    return Unknown(owner.step, owner.step) if made is None else made


def _wait_for_index(frame: Frame, node: ast.Subscript, index: Value) -> None:
    """Emit a wait if the index of a list or tuple is a device tensor, because `__index__` reads the device."""
    protocols.called(frame, node, index, "__index__")
    frame.emit_if_on_device("HostRead", "index", node, index)


def _slice_bounds(frame: Frame, node: ast.Slice, owner: Value) -> tuple[Value | None, ...]:
    """Return the bounds of a slice. The host waits for a bound that is a device tensor, because lists, strings and
    tensors all call its `__index__`."""
    bounds = tuple(None if part is None else frame.evaluate(part) for part in (node.lower, node.upper, node.step))
    if isinstance(owner, (Sequence, Unknown, Array, Number)):
        for part, bound in zip((node.lower, node.upper, node.step), bounds, strict=True):
            if part is not None and bound is not None:
                frame.emit_if_on_device("Extent", "slice", part, bound)
    return bounds


def _slice_sequence(owner: Sequence, bounds: tuple[Value | None, ...]) -> Value:
    consts = [None if bound is None else const_of(bound) for bound in bounds]
    if owner.items is not None and UNSET not in consts and all(c is None or type(c) is int for c in consts):
        try:
            items = owner.items[slice(*consts)]
        except ValueError:
            items = owner.items
        return replace(owner, items=items, elem=join_all(items) if items else owner.elem, held_by=None)
    return replace(owner, items=None, held_by=None)


def _load_tensor(frame: Frame, node: ast.Subscript, tensor: Tensor) -> Value:
    index = Index(frame, node, tensor).read()
    if index.gathers:
        return Tensor(
            where=tensor.where,
            dtype=tensor.dtype,
            ndim=None,
            step=tensor.step or index.gathers == "step",
            fresh=True,
            certain=tensor.certain,
            maybe_host=tensor.maybe_host,
        )
    ndim = tensor.ndim - index.dropped if index.is_known and tensor.ndim is not None else None
    name = None if tensor.name is None else f"{tensor.name}[…]"
    # The result of a slice with a step is not dense (there are gaps between its elements), so PyTorch copies it through
    # pageable memory.
    dense = not any(isinstance(part, ast.Slice) and part.step is not None for part in parts_of(node.slice))
    return replace(
        tensor,
        ndim=ndim if ndim is None or ndim >= 0 else None,
        name=name,
        literal=False,
        pinned=tensor.pinned and dense,
    )


def subscript_store(frame: Frame, target: ast.Subscript, owner: Value, value: Value, node: ast.AST) -> bool:
    """Emit the effects of `owner[…] = value` on a tensor. Return False if `owner` is not a tensor."""
    tensor, certain = as_tensor(owner)
    if type(owner) is Unknown and _takes_tensors(frame, target, value):
        tensor, certain = Tensor(where="any", step=owner.step), True
    if tensor is None:
        return False
    frame.use_number(value, "operand", node)
    if frame.hot and tensor.attr is not None:
        frame.engine.note(StepInput(tensor.attr))
    if tensor.where == "host":
        _store_on_host(frame, target, value, node)
        return True
    masks = _mask_parts(frame, target)
    index = Index(frame, target, tensor, is_store=True).read()
    confidence = confidence_of(tensor, certain)
    if masks:
        _store_by_mask(frame, node, masks[0], value, confidence)
    else:
        _store_by_index(frame, target, index, value, node, confidence)
    return True


def _takes_tensors(frame: Frame, target: ast.Subscript, value: Value) -> bool:
    """Return whether `owner[index] = value` stores into a tensor. If the index and the value are both tensors, the
    index cannot be a key of a dict."""
    stored, certain = as_tensor(value)
    if stored is None or stored.where == "host" or not (certain and stored.certain):
        return False
    index, certain = as_tensor(frame.evaluate_quietly(target.slice))
    return index is not None and certain and index.certain and (index.ndim is None or index.ndim > 0)


def _store_on_host(frame: Frame, target: ast.Subscript, value: Value, node: ast.AST) -> None:
    source, certain = as_tensor(value)
    if source is not None and source.where == "device":
        frame.emit("Transfer", "to-host", node, confidence_of(source, certain), value=describe(value))
    for part in parts_of(target.slice):
        frame.evaluate(part)


def _store_by_mask(frame: Frame, node: ast.AST, mask: Value, value: Value, confidence: Confidence) -> None:
    source, _ = as_tensor(value)
    is_tensor = source is not None or (type(value) is Unknown and value.device)
    if is_tensor and (source is None or source.where != "host"):
        frame.emit("Extent", "mask-store", node, confidence, value=describe(mask))
    elif source is not None and source.ndim != 0:
        frame.emit("Store", "host-part", node, confidence, value=describe(value))


def _store_by_index(
    frame: Frame, target: ast.Subscript, index: Index, value: Value, node: ast.AST, confidence: Confidence
) -> None:
    tensor, gathers = index.tensor, index.gathers
    fills = _spans_dimensions(target.slice, tensor.ndim)
    only_integers = not gathers and index.is_known and not fills and not _asks(frame, target)
    # PyTorch copies a host value to the device only if the selected element is 0-d. Otherwise it fills the elements.
    single = only_integers and (tensor.ndim is None or tensor.ndim == index.dropped)
    source, _ = as_tensor(value)
    if source is not None:
        if source.where == "host" and (source.ndim != 0 or single or gathers):
            how = "by-index" if gathers else "host-tensor" if single else "host-part"
            frame.emit("Store", how, node, confidence, None, value=describe(value), **_place(single))
    elif type(value) is Number or type(value) is Array:
        # With an index tensor, `index_put_` first moves the value to the device. With a mask, it fills the elements
        # instead.
        if single or gathers:
            doubt = confidence if single or _indexed_by_integers(frame, target) else "possible"
            how = "by-index" if gathers else "scalar"
            frame.emit("Store", how, node, doubt, None, value="a Python value", **_place(single))
    elif type(value) is Sequence and type(value.elem) is Number:
        frame.emit("Transfer", "literal", node, confidence, value="a Python list")


def _place(single: bool) -> Mapping[str, str]:
    return {"place": "one element"} if single else {}


def _spans_dimensions(node: ast.expr, ndim: int | None) -> bool:
    """Return whether an index contains a slice, None or `...`. An ellipsis spans no dimension if the other parts index
    all dimensions. This can be decided only if the tensor's number of dimensions is known."""
    whole = (None, Ellipsis) if ndim is None else (None,)
    return any(
        isinstance(part, ast.Slice) or (isinstance(part, ast.Constant) and part.value in whole)
        for part in parts_of(node)
    )


def _asks(frame: Frame, target: ast.Subscript) -> bool:
    """Return whether an index is the result of a comparison. If so, the index is a mask, even if the operands are
    unknown."""
    values = [frame.evaluate_quietly(part) for part in parts_of(target.slice) if not isinstance(part, ast.Slice)]
    return any(type(value) is Number and value.type == "bool" for value in values)


def _index_tensors(frame: Frame, target: ast.Subscript) -> list[tuple[Value, Tensor]]:
    found = []
    for part in parts_of(target.slice):
        if not isinstance(part, ast.Slice):
            value = frame.evaluate_quietly(part)
            tensor, _ = index_tensor(value, part)
            if tensor is not None and tensor.where != "host":
                found.append((value, tensor))
    return found


def _indexed_by_integers(frame: Frame, target: ast.Subscript) -> bool:
    return all(tensor.dtype == "int" for _, tensor in _index_tensors(frame, target))


def _mask_parts(frame: Frame, target: ast.Subscript) -> list[Value]:
    return [value for value, tensor in _index_tensors(frame, target) if tensor.dtype == "bool"]
