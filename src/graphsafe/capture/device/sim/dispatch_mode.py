"""The dispatch mode of the simulated device. For each operation, the mode gives the results their tags, notes the
effects, and records a node if a capture is under way."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from graphsafe.capture.device.modes import OperationMode
from graphsafe.capture.device.sim import backward_waits, generators
from graphsafe.capture.device.sim.collectives import NAMESPACE, run_functional
from graphsafe.capture.device.sim.effects import (
    TRANSFERS,
    NodeKind,
    OpEffect,
    is_allocation,
    is_recorded,
    kind_of,
    nbytes_of,
    op_effects,
    op_name,
    table_entry,
    unknown_of,
    written_by,
)
from graphsafe.capture.device.sim.function_mode import function_mode_on
from graphsafe.capture.device.sim.nodes import Draw, Node, SimStream
from graphsafe.capture.device.sim.perform import perform, refuse_missing_kernel
from graphsafe.capture.device.sim.session import Session
from graphsafe.capture.device.sim.shapes import Repeated, form_of, repeated
from graphsafe.capture.device.sim.tags import HOST, index_of, is_pinned, pin, put_tag, storages, tags_of
from graphsafe.capture.device.sim.world import World
from graphsafe.capture.device.structures import changed, is_valueless, is_wrapper_class, takes_device, tensors_in
from graphsafe.capture.shared.frames import user_frames
from graphsafe.optable import Op

__tracebackhide__ = True  # pytest reads this: the traceback of a failure ends at the user's line


_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd


class SimDispatchMode(OperationMode):  # type: ignore[no-untyped-call]
    def __init__(self, world: World, leaves: type | None = None) -> None:
        """`leaves` is a tensor subclass. This subclass handles the first operation on one of its tensors itself,
        without this mode."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.world = world
        self._leaves = leaves

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._leaves in types:
            self._leaves = None
            return NotImplemented
        if self.world.bypassed:
            return func(*args, **kwargs)
        wrapper = next((kind for kind in types if is_wrapper_class(kind)), None)
        if wrapper is not None and wrapper.__name__ == "FakeTensor":  # a FakeTensor has only a shape
            return func(*args, **kwargs)
        if wrapper is not None:
            # The subclass's own method calls operations on its inner tensors. These inner tensors have the device's
            # tag.
            if wrapper.__name__ == "DTensor":  # C++ unwraps a DTensor; its own method would only call `func` again
                with SimDispatchMode(self.world, leaves=wrapper):
                    return func(*args, **kwargs)
            with SimDispatchMode(self.world), function_mode_on(self.world):
                return wrapper.__torch_dispatch__(func, types, args, kwargs)
        with torch._C.DisableTorchFunction():
            if not isinstance(func, torch._ops.OpOverload):
                return run_opaque(self.world, func, args, kwargs)
            if _is_composite(func):
                # C++ decomposes the operation, as on a GPU. `func.decompose` is not used, because it may import sympy
                # during the user's step.
                with SimDispatchMode(self.world):
                    return func._op_dk(_COMPOSITE, *args, **kwargs)
            return run(self.world, func, args, kwargs)


@functools.cache
def _is_composite(func: Any) -> bool:
    """Return whether an operation consists of other operations. Autograd decomposes such an operation before this mode
    sees it. In inference mode, Autograd does not decompose the operation."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), _COMPOSITE)
    return bool(has_kernel) and func.namespace == "aten"


def run(world: World, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    shapes, session = world.shapes, world.session
    form = None if shapes is None or world.doubted else form_of(func, args, kwargs, world.here.scope)
    if form is None or shapes is None:
        return _run(world, func, args, kwargs)
    known = shapes.repeated.get(form)
    if known is not None and (session is None or world.current_sim_stream(known.device) in session.clocks):
        return _again(world, func, args, kwargs, known)
    asked = shapes.asked
    result = _run(world, func, args, kwargs)
    if known is None and shapes.asked == asked and (learnt := _repeated(world, func, args, kwargs, result)) is not None:
        shapes.repeated[form] = learnt
    return result


def _run(world: World, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    inputs = tensors_in((*args, *kwargs.values()))
    if _is_not_simulated(world, func, inputs):
        return func(*args, **kwargs)
    places = [index_of(tensor) for tensor in inputs]
    indices = sorted({*places} - {HOST})
    target = _target(world, func, inputs, indices)
    if target == HOST and not indices:
        return _on_host(world, func, args, kwargs)
    device = indices[0] if target == HOST else target
    world.touched.add(device)
    if func.namespace == NAMESPACE:
        return run_functional(world, func, args, kwargs, device)
    if (unknown := unknown_of(func, inputs, world.table)) is not None:
        world.record_unknown_effect(unknown)
    doubts = _doubts(world, inputs) if world.doubted else []
    entry = table_entry(func, world.table)
    refuse_missing_kernel(func, entry, inputs)
    sim_stream, session = world.current_sim_stream(device), world.session
    capturing = session if session is not None and sim_stream in session.clocks else None
    if capturing is not None:
        capturing.admit()
    placed = list(zip(inputs, places, strict=True))
    for effect in op_effects(func, args, kwargs, placed, target, world.here.scope, world.table):
        with world.on(device):  # a kernel makes its tensors' device current, as PyTorch's device guard does
            _announce(world, func, effect, capturing)
    draw = _draw(world, func, args, kwargs, device, capturing is not None)
    frozen: Any = None
    written: list[torch.Tensor] = []
    if capturing is not None:
        written = written_by(func, entry, args, kwargs)
        frozen = _frozen(capturing, func, args, kwargs, written)
    elif session is not None:
        session.escape(sim_stream, world.event("hidden-sync", op_name(func), device=f"cuda:{device}"))

    result = _performed(world, func, args, kwargs, target, draw, capturing is not None)
    outputs = _on_device(entry, result)
    if any(tensor.is_nested for tensor in (*inputs, *outputs)):
        world.record_unknown_effect(f"{op_name(func)} of a nested tensor")
    _tag(world, func, kwargs, inputs, outputs, target, capturing)
    if doubts:
        for tag in tags_of((*outputs, *written_by(func, entry, args, kwargs))):
            tag.doubt = tag.doubt or doubts[0]
    if session is None:
        kind = None if world.launched is None else kind_of(func, entry, inputs, outputs)
        _report(world, func, args, kwargs, outputs, kind)
    elif capturing is not None and (kind := kind_of(func, entry, inputs, outputs)) is not None:
        capturing.add(_node(sim_stream, func, kind, frozen, inputs, outputs, written, draw))
    return result


def _report(
    world: World, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Any, kind: NodeKind | None
) -> None:
    """Report an operation that ran eagerly."""
    if world.launched is not None and kind is not None:
        world.launched(kind, op_name(func))
    if world.ran is not None:
        world.ran(func, args, kwargs, outputs)


def _again(world: World, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], known: Repeated) -> Any:
    """Run a call that has the same form as an earlier call."""
    device, kind, capturing = known.device, known.kind, world.session
    world.touched.add(device)
    frozen = None
    if capturing is not None:
        capturing.admit()
        frozen = None if kind is None else _frozen(capturing, func, args, kwargs, ())
    result = known.run(func, args, kwargs)
    outputs = tensors_in(result)
    for tensor in outputs:
        put_tag(tensor, device, world.ledgers[device], capturing)
    if capturing is None:
        _report(world, func, args, kwargs, outputs, kind)
    elif kind is not None:
        inputs = tensors_in((*args, *kwargs.values()))
        capturing.add(_node(world.current_sim_stream(device), func, kind, frozen, inputs, outputs))
    return result


def _repeated(world: World, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Repeated | None:
    """Return how to run further calls of the same form as the call that has just run. Return None if that call did more
    than return a result."""
    inputs = tensors_in((*args, *kwargs.values()))
    entry, places = table_entry(func, world.table), [index_of(tensor) for tensor in inputs]
    target = _target(world, func, inputs, sorted({*places} - {HOST}))
    if target == HOST or (entry is not None and (entry.compares_texts or entry.host_results or entry.mutates)):
        return None
    if backward_waits.may_wait(op_name(func)):
        return None
    if unknown_of(func, inputs, world.table) or is_allocation(world.here.scope.via, world.table):
        return None
    if op_effects(func, args, kwargs, list(zip(inputs, places, strict=True)), target, world.here.scope, world.table):
        return None
    return repeated(target, kind_of(func, entry, inputs, tensors_in(result)), inputs, result)


def _is_not_simulated(world: World, func: Any, inputs: Sequence[torch.Tensor]) -> bool:
    """Return whether an input is a plain meta tensor, and the call does not ask for a result on a simulated device."""
    materialised = world.here.scope.explicit and world.here.scope.place != HOST and takes_device(func)
    return not materialised and any(tensor.device.type != "cpu" and not is_valueless(tensor) for tensor in inputs)


def _performed(
    world: World,
    func: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    target: int,
    draw: Draw | None,
    captured: bool,
) -> Any:
    """Run an operation on the CPU."""

    def act() -> Any:
        if world.shapes is not None:
            return world.shapes.perform(func, args, kwargs, target)
        return perform(func, args, kwargs)

    try:
        if draw is None:
            return act()
        state = draw.generator.state
        return generators.draw(state.seed, draw.offset + (state.offset if captured else 0), act)
    except NotImplementedError:
        world.record_unknown_effect(f"{op_name(func)} (the CPU has no kernel for it)")
        raise


def _frozen(
    capturing: Session, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], written: Sequence[torch.Tensor]
) -> Any:
    """Save the tensors that a captured operation writes. Return the operation's arguments in the form that replays
    read.

    Tensors become detached aliases. A later change of a tensor's shape or `.data` then changes no address in the graph.
    A host tensor that a GPU cannot read is copied, because a kernel is given its value. Unless the operation is a copy,
    a kernel is also given the value of a pinned tensor without dimensions.
    """
    for tensor in written:
        capturing.save(tensor)
    kept = {id(tensor) for tensor in written}
    copies = op_name(func) in TRANSFERS

    def freeze(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        is_number = not copies and leaf.dim() == 0
        by_value = index_of(leaf) == HOST and (is_number or not is_pinned(leaf)) and id(leaf) not in kept
        return leaf.detach().clone() if by_value else leaf.detach()

    return changed((tuple(args), dict(kwargs)), freeze)


def _on_device(entry: Op | None, result: Any) -> list[torch.Tensor]:
    """Return the tensors in an operation's result that are on the device."""
    on_host = () if entry is None else entry.host_results
    return [tensor for at, tensor in enumerate(tensors_in(result)) if at not in on_host]


def run_opaque(world: World, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run a higher-order operator, such as `flex_attention`. Its effects are not known."""
    indices = {index_of(tensor) for tensor in tensors_in((args, dict(kwargs)))} - {HOST}
    result = func(*args, **kwargs)
    if indices:
        world.record_unknown_effect(f"higher-order operator {func}")
        device = min(indices)
        for tensor in tensors_in(result):
            put_tag(tensor, device, world.ledgers[device], world.session)
    return result


def _doubts(world: World, inputs: Sequence[torch.Tensor]) -> list[str]:
    """Return the unknown effects on which the values of `inputs` depend. During a step, also note these effects as
    effects of the step."""
    found = [tag.doubt for tag in tags_of(inputs) if tag.doubt is not None]
    if world.stepping:
        world.met(found)
    return found


def _on_host(world: World, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    if _may_draw(func):
        world.emit("random", op_name(func), device="cpu", how="host-random")
    if world.shapes is None:
        return func(*args, **kwargs)
    if world.here.scope.via == "torch.Tensor.__setitem__" and kwargs.get("device") is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}  # a number is stored into memory that has no values
    return world.shapes.perform(func, args, kwargs, HOST)


def _target(world: World, func: Any, inputs: Sequence[torch.Tensor], indices: Sequence[int]) -> int:
    """Return the device of the result. This is the device that the call names. If the call names none, it is the device
    of the first tensor on a device, or the scope's device if there are no tensors."""
    scope = world.here.scope
    if takes_device(func) and (scope.explicit or not inputs):
        return scope.place
    return indices[0] if indices else HOST


def _announce(world: World, func: Any, effect: OpEffect, capturing: Session | None) -> None:
    name = effect.op or op_name(func)
    if effect.data.get("certain") is False:
        world.record_unknown_effect(f"{name} (whether it waits depends on sizes or values)")
        return
    refusal = effect.refusal
    if refusal is None:
        return
    world.refusals_seen += 1
    world.emit(effect.kind, name, effect.nbytes, **effect.data)
    # PyTorch's own checks refuse only if the current stream is capturing. CUDA refuses a wait while any stream is
    # capturing.
    if capturing is not None or refusal.invalidates:
        world.refuse(refusal, name, effect.kind, **effect.data)


def _draw(
    world: World, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], device: int, capturing: bool
) -> Draw | None:
    """Return the generator and the offset of the numbers that an operation draws. Return None if it draws none."""
    if not _is_random(func, args, kwargs):
        return None
    generator = world.here.scope.generator or world.generators[device]
    if generator.index != device:
        raise RuntimeError(f"Expected a 'cuda:{device}' generator device but found 'cuda:{generator.index}'")
    if generator is not world.generators[device]:
        world.emit("random", op_name(func), device=f"cuda:{device}", how="private-generator")
    generator.check(capturing)
    return Draw(generator, generator.advance(capturing))


@functools.cache
def _may_draw(func: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in func.tags


def _is_random(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    if not _may_draw(func):
        return False
    for position, argument in enumerate(func._schema.arguments):
        value = args[position] if position < len(args) else kwargs.get(argument.name, argument.default_value)
        if argument.name in ("dropout_p", "dropout", "p") and value == 0:
            return False
        if argument.name in ("train", "training") and value is False:
            return False
    return True


def _tag(
    world: World,
    func: Any,
    kwargs: Mapping[str, Any],
    inputs: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
    target: int,
    session: Session | None,
) -> None:
    if target == HOST:
        if op_name(func) == "aten::_to_copy" and kwargs.get("non_blocking"):
            for tensor in outputs:
                pin(tensor, world.session)
        return
    before = {storage._cdata for tensor in inputs for storage in storages(tensor)}
    for tensor in outputs:
        if any(storage._cdata in before for storage in storages(tensor)):
            continue
        if put_tag(tensor, target, world.ledgers[target], session) and is_allocation(world.here.scope.via, world.table):
            world.emit("allocation", op_name(func), nbytes_of(tensor), device=f"cuda:{target}")


def _node(
    sim_stream: SimStream,
    func: Any,
    kind: NodeKind,
    frozen: Any,
    inputs: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
    written: Sequence[torch.Tensor] = (),
    draw: Draw | None = None,
) -> Node:
    """Return the node that a replay runs."""
    args, kwargs = frozen
    frames, span = user_frames()
    results, changed = (tuple(tensor.detach() for tensor in some) for some in (outputs, written))
    backward = torch._C._current_graph_task_id() >= 0
    recorded = is_recorded(inputs)
    return Node(
        sim_stream, func, args, kwargs, results, op_name(func), kind, draw, frames, span, changed, recorded, backward
    )
