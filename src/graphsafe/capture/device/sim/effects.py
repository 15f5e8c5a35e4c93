"""Finds the effects of one operation on the host and on a capture, before the operation runs.

The effects of copies, indexing and scalar reads follow from the tags of the arguments. All other effects are looked up
in the op table.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from graphsafe.capture.answers.events import StepEventKind
from graphsafe.capture.device.protocol import STOPS
from graphsafe.capture.device.sim import backward_waits
from graphsafe.capture.device.sim.generators import Generator
from graphsafe.capture.device.sim.legality import NOT_PERMITTED, PAGEABLE, Refusal, of_hidden_wait, of_transfer
from graphsafe.capture.device.sim.tags import HOST, index_of, is_pinned, storages
from graphsafe.capture.device.structures import by_schema, copy_of, is_written, memory_key, tensors_in
from graphsafe.optable import UNKNOWN, Argument, Call, Effect, Op, OpTable

TRANSFERS = frozenset({"aten::_to_copy", "aten::copy_", "aten::copy", "aten::_copy_from"})
GETS = frozenset({"aten::index", "aten::_unsafe_index"})
_PUTS = frozenset({"aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index_put"})
READ = "aten::_local_scalar_dense"
"The operation with which Python reads a number from a tensor."
_COPIES = frozenset({"aten::copy_", "aten::clone"})
_OPEN_NAMESPACES = frozenset({"fsdp", "profiler", "prim", "prims"})
"""Namespaces besides aten whose ops have no hidden effects: bookkeeping, copies between flat buffers, and PyTorch's own
decompositions. In other namespaces the effects of ops are unknown."""

_STRUCTURAL = frozenset({"__getitem__", "__setitem__", "index_put", "index_put_"})
"Names of calls whose effects follow from the tags of the arguments and not from the op table."


NodeKind = Literal["kernel", "memcpy"]


@dataclass(frozen=True, slots=True)
class Scope:
    """The torch function that the user's code called, with the device and the generator that it requests. The scope is
    kept while the function's operations run."""

    via: str | None = None
    "The name of that function in the op table."
    place: int = HOST
    "The device for a tensor that is not made from another tensor."
    explicit: bool = False
    "Whether the call itself names the device."
    generator: Generator | None = None
    "The generator that the call names, or None."
    literal: bool = False
    "Whether the tensor's values come from Python objects."


@dataclass(frozen=True, slots=True)
class OpEffect:
    kind: StepEventKind
    refusal: Refusal | None = None
    nbytes: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    op: str | None = None
    "The operation that has this effect, if it is not the one that is called."


def op_effects(
    func: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    placed: Sequence[tuple[torch.Tensor, int]],
    target: int,
    scope: Scope,
    table: OpTable,
) -> tuple[OpEffect, ...]:
    """Return the effects of a call. `placed` has the call's tensors with their devices. `target` is the device of the
    result (`HOST` for the CPU). Raises `RuntimeError` with PyTorch's message if the call mixes devices."""
    name = op_name(func)
    if scope.via is not None and (via := table.python(scope.via)) is not None and via.checks_on_cpu:
        return ()
    if name == READ:
        return (OpEffect("read", NOT_PERMITTED, data={"dtype": _dtype(args[0])}),)
    if name in TRANSFERS:
        return _transfer(name, args, kwargs, target, scope.literal)
    if name in GETS:
        return _indexed(args[0], args[1], scope.literal)
    if name in _PUTS:
        return _stored(args[0], args[1], args[2], scope.literal)
    if name == "aten::where" and len(args) == 3:
        given = [value for value in args[1:] if isinstance(value, torch.Tensor)]
        return tuple(_upload(value) for value in given if index_of(value) == HOST and value.dim() == 0)
    if (formula := backward_waits.waiting_formula(name, args)) is not None:
        return (OpEffect("hidden-sync", NOT_PERMITTED, op=formula),)
    entry = table_entry(func, table)
    _refuse_mixed(func, entry, placed)
    if _shapes_answer(name, args):
        return ()
    if entry is None or not _may_happen(func, table):
        return ()
    found = []
    named = {parameter.name: value for parameter, value in zip(func._schema.arguments, args, strict=False)}
    for hit in entry.effects_of(_form(entry, args, {**named, **kwargs})):
        kind = STOPS.get(hit.effect.kind)
        if hit.effect.kind == "copies" and entry.aten is None:
            found.append(OpEffect("copy-to-device", PAGEABLE, data={"pinned": False, "non_blocking": False}))
        if kind is not None:
            found.append(OpEffect(kind, of_hidden_wait(hit.effect), data={"certain": hit.certain}))
    return tuple(found)


@functools.cache
def op_name(func: Any) -> str:
    return str(func._schema.name)


@functools.cache
def _is_unknown(func: Any, table: OpTable) -> bool:
    """Return whether an op's effects are unknown: the op belongs to another library, or is newer than the op table."""
    name = op_name(func)
    namespace = name.partition("::")[0]
    if namespace in _OPEN_NAMESPACES:
        return False
    return namespace != "aten" or not table.knows_aten(name, func._schema.overload_name)


def unknown_of(func: Any, inputs: Sequence[torch.Tensor], table: OpTable) -> str | None:
    """Return the name of an operation if the op table does not know its effects on these inputs, else None."""
    if _is_unknown(func, table):
        return op_name(func)
    sparse = [tensor for tensor in inputs if tensor.layout is torch.sparse_coo]
    if sparse and func.overloadpacket not in _ON_PARTS and not all(one.is_coalesced() for one in sparse):
        return f"{op_name(func)} (it may coalesce its sparse tensor first, which waits)"
    return None


_ON_PARTS = frozenset(
    getattr(torch.ops.aten, name)
    for name in ("_indices", "_values", "_nnz", "_coalesce", "coalesce", "is_coalesced", "sparse_dim", "detach")
)
"""Operations on sparse tensors that need no check of whether the tensor is coalesced. Either this makes no difference
to them, or they always wait according to the op table."""


def _transfer(
    name: str, args: Sequence[Any], kwargs: Mapping[str, Any], target: int, literal: bool
) -> tuple[OpEffect, ...]:
    if not isinstance(args[0], torch.Tensor):  # vmap passes a Python number in place of the tensor
        return ()
    source, destination, non_blocking = copy_of(name, args, kwargs)
    here, there = index_of(source), target if destination is None else index_of(destination)
    if (here == HOST) == (there == HOST):
        return ()
    # Nothing is copied, so `torch.tensor([], device=...)` can be captured (transformers' caches do this).
    if source.numel() == 0:
        return ()
    host = source if here == HOST else destination
    # The result of `.to("cpu", non_blocking=True)` is in pinned memory.
    pinned = non_blocking
    if host is not None:
        # If the layouts differ, PyTorch first copies the host tensor to other memory, which is pageable.
        is_staged = source.stride() != destination.stride() if destination is not None else not source.is_contiguous()
        pinned = is_pinned(host) and not is_staged
    data = {"pinned": pinned, "non_blocking": non_blocking, "dtype": _dtype(source), "literal": literal}
    kind: StepEventKind = "copy-to-host" if there == HOST else "copy-to-device"
    return (OpEffect(kind, of_transfer(pinned, non_blocking), nbytes_of(source), data),)


def _indexed(self: torch.Tensor, indices: Sequence[Any], literal: bool) -> tuple[OpEffect, ...]:
    if index_of(self) == HOST:
        for index in indices:
            if index is not None and index_of(index) != HOST:
                raise RuntimeError("indices should be either on cpu or on the same device as the indexed tensor (cpu)")
        return ()
    found = []
    for index in indices:
        if index is None:
            continue
        mask = index.dtype in (torch.bool, torch.uint8)
        if index_of(index) == HOST:
            # The true elements of a host mask are counted on the host, and their indices are copied from pinned memory
            # without a wait. A mask that is written as a Python list is first copied to the device.
            if literal or not mask:
                found.append(_upload(index, index=True))
        elif mask:
            found.append(OpEffect("extent", NOT_PERMITTED, data={"mask": True}))
    return tuple(found)


def _stored(self: torch.Tensor, indices: Sequence[Any], value: torch.Tensor, literal: bool) -> tuple[OpEffect, ...]:
    """Return the effects of a store into a tensor. The true elements of a device mask have to be counted, except in a
    masked fill, which has one mask and a scalar."""
    if index_of(self) == HOST:
        return _indexed(self, indices, literal)
    given = [index for index in indices if index is not None]
    on_host = index_of(value) == HOST
    masks = [index for index in given if index.dtype in (torch.bool, torch.uint8) and index_of(index) != HOST]
    if on_host and value.numel() == 1 and len(given) == len(masks) == 1:
        return ()
    found = list(_indexed(self, indices, literal))
    if on_host:
        if value.dim() != 0:
            raise _mixed(index_of(self), HOST)
        found.append(_upload(value))
    return tuple(found)


def _upload(value: torch.Tensor, **data: Any) -> OpEffect:
    pinned = is_pinned(value)
    data = {"pinned": pinned, "non_blocking": False, "dtype": _dtype(value), **data}
    return OpEffect("copy-to-device", NOT_PERMITTED if pinned else PAGEABLE, nbytes_of(value), data)


def _refuse_mixed(func: Any, entry: Op | None, placed: Sequence[tuple[torch.Tensor, int]]) -> None:
    """Raise if CUDA would refuse tensors on these devices. A pointwise kernel accepts a host tensor without dimensions
    as a number."""
    devices = {index for _, index in placed}
    taken = "none" if entry is None else entry.host_arguments
    if len(devices) < 2 or taken == "tensors":
        return
    accelerators = sorted(devices - {HOST})
    if len(accelerators) > 1:
        raise _mixed(*accelerators[:2])
    scalars = taken == "scalars" or (torch.Tag.pointwise in func.tags and "clamp" not in op_name(func))
    if any(index == HOST and not (scalars and tensor.dim() == 0) for tensor, index in placed):
        raise _mixed(accelerators[0], HOST)


def _shapes_answer(name: str, args: Sequence[Any]) -> bool:
    """Return whether the shapes alone decide the result, as for `torch.equal` of tensors with different shapes."""
    if name not in ("aten::equal", "torch.equal", "torch.Tensor.equal") or len(args) != 2:
        return False
    return bool(args[0].shape != args[1].shape)


def _mixed(one: int, other: int) -> RuntimeError:
    names = ["cpu" if index == HOST else f"cuda:{index}" for index in (one, other)]
    return RuntimeError(
        f"Expected all tensors to be on the same device, but found at least two devices, {names[0]} and {names[1]}!"
    )


@functools.cache
def _may_happen(func: Any, table: OpTable) -> bool:
    """Return whether, according to the table, a call of an op can have the effect `copies` or an effect that stops a
    capture.

    An effect that needs a tensor argument cannot occur if the op itself takes only numbers. In that case the Python
    function has read the tensor.
    """
    entry = table_entry(func, table)
    effects = () if entry is None else entry.effects
    tensors = {argument.name for argument in func._schema.arguments if "Tensor" in str(argument.type)}

    def can_hold(effect: Effect) -> bool:
        kinds = {} if effect.when is None else effect.when.kinds
        return all(name in tensors or not {"tensor", "tensors", "mask"}.issuperset(kinds[name]) for name in kinds)

    return any((effect.kind in STOPS or effect.kind == "copies") and can_hold(effect) for effect in effects)


def is_allocation(via: str | None, table: OpTable) -> bool:
    """Return whether a torch function, such as `torch.zeros`, serves only to allocate memory. The memory then does not
    count as an op's result."""
    entry = None if via is None else table.python(via)
    return entry is not None and any(effect.kind == "allocates" and effect.how != "pinned" for effect in entry.effects)


@functools.cache
def table_entry(func: Any, table: OpTable) -> Op | None:
    return table.aten(op_name(func), func._schema.overload_name)


def unseen_stop(func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], table: OpTable) -> Effect | None:
    """Return an effect of a torch function, or None. The effect stops a capture on CUDA but is not visible on the
    CPU."""
    entry = _stopping_entry(func, name, table)
    if entry is None or name.rpartition(".")[2] in _STRUCTURAL or _shapes_answer(name, args):
        return None
    hits = entry.effects_of(_form(entry, args, kwargs))
    return next((hit.effect for hit in hits if hit.certain and hit.effect.kind in STOPS), None)


@functools.cache
def _stopping_entry(func: Any, name: str, table: OpTable) -> Op | None:
    entry = table.python(name)
    return entry if entry is not None and any(effect.kind in STOPS for effect in entry.effects) else None


def _form(entry: Op, args: Sequence[Any], named: Mapping[str, Any]) -> Call:
    """Return a call in the op table's form."""
    first = next((value for value in args if isinstance(value, torch.Tensor)), None)
    dtype = None if first is None else _dtype(first)
    texts = entry.compares_texts
    positional = tuple(_argument(value, texts) for value in args)
    keywords = {name: _argument(value, texts) for name, value in named.items()}
    return Call(positional, keywords, dtype=dtype, torch=torch.__version__)


def _argument(value: Any, texts: bool) -> Argument:
    """Return an argument in the op table's form. With `texts`, a tensor is described by a string that is equal for two
    views of the same values."""
    if value is None:
        return Argument("none", None)
    if isinstance(value, torch.Tensor):
        text = ""
        if texts:
            try:
                text = f"{memory_key(value)}:{value.storage_offset()}:{tuple(value.shape)}:{value.stride()}"
            except RuntimeError:  # a sparse or nested tensor, or a tensor wrapped by vmap, has no address or no strides
                text = str(id(value))
        if index_of(value) == HOST:
            return Argument("host-tensor", UNKNOWN, text)
        return Argument("mask" if value.dtype == torch.bool else "tensor", UNKNOWN, text)
    if isinstance(value, bool):
        return Argument("bool", value, str(value))
    if isinstance(value, (int, float, complex)):
        return Argument("number", value, str(value))
    if isinstance(value, str):
        return Argument("string", value, value)
    if isinstance(value, (list, tuple)):
        return Argument("sequence")
    if isinstance(value, torch.dtype):
        return Argument("dtype", str(value).removeprefix("torch."))
    return Argument("other")


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def nbytes_of(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def written_by(func: Any, entry: Op | None, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """Return the tensors that the op writes, according to its schema and to the op table. The table lists written
    arguments that a schema does not declare."""
    unsaid = () if entry is None else entry.mutates
    found = []
    for argument, value in by_schema(func, args, kwargs):
        if is_written(argument) or argument.name in unsaid:
            found += tensors_in(value)
    return found


def is_recorded(inputs: Sequence[torch.Tensor]) -> bool:
    """Return whether autograd records an operation on these tensors."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs)


def kind_of(
    func: Any, entry: Op | None, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
) -> NodeKind | None:
    """Return the kind of work that an op launches on the device. Return None if the op launches nothing."""
    name = op_name(func)
    if entry is not None and not entry.launches:
        return None
    mutable = func._schema.is_mutable or (entry is not None and entry.mutates != ())
    if not mutable and not outputs and func._schema.returns:  # the result is a host value (`equal`)
        return None
    if not mutable and outputs:
        before = {storage._cdata for tensor in inputs for storage in storages(tensor)}
        if all(storage._cdata in before for tensor in outputs for storage in storages(tensor)):
            return None
    if name in _COPIES and len({(tensor.dtype, tensor.shape) for tensor in (*inputs, *outputs)}) == 1:
        return "memcpy"
    if name == "aten::_to_copy" and HOST in {index_of(tensor) for tensor in (*inputs, *outputs)}:
        return "memcpy"
    return "kernel"
