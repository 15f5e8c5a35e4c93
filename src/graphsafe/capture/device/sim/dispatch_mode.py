"""The mode under every operation: it passes on tags, notes what the operation does, and records it in a capture."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence, Set
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from graphsafe.capture.device.sim import generators
from graphsafe.capture.device.sim.collectives import NAMESPACE, run_functional
from graphsafe.capture.device.sim.effects import (
    Happening,
    happenings,
    is_allocation,
    is_unknown,
    nbytes_of,
    op_name,
    table_entry,
)
from graphsafe.capture.device.sim.function_mode import function_mode_on
from graphsafe.capture.device.sim.generators import Generator
from graphsafe.capture.device.sim.graphs import Draw, Node, NodeKind, Session, tensors_in
from graphsafe.capture.device.sim.perform import perform
from graphsafe.capture.device.sim.tags import HOST, index_of, is_pinned, pin, put_tag, storages, tags_of
from graphsafe.capture.device.sim.world import World
from graphsafe.capture.lines.frames import user_frames
from graphsafe.capture.state.tensors import is_wrapper_class
from graphsafe.optable import Op

_COPIES = frozenset({"aten::copy_", "aten::clone"})


class SimDispatchMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, world: World, leaves: type | None = None) -> None:
        """`leaves`: a class that handles the first operation on it by itself."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.world = world
        self._leaves = leaves

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Being skipped would import dynamo, seconds for nothing: no compiled code runs here."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._leaves in types:
            self._leaves = None
            return NotImplemented
        if self.world.bypassed:
            return func(*args, **kwargs)
        wrapper = next((kind for kind in types if is_wrapper_class(kind)), None)
        if wrapper is not None and wrapper.__name__ == "FakeTensor":  # shapes only, which play no device
            return func(*args, **kwargs)
        if wrapper is not None:
            # Its own operations are the ones that reach the device.
            if wrapper.__name__ == "DTensor":  # C++ takes it apart; the method would only call the operation again
                with SimDispatchMode(self.world, leaves=wrapper):
                    return func(*args, **kwargs)
            with SimDispatchMode(self.world), function_mode_on(self.world):
                return wrapper.__torch_dispatch__(func, types, args, kwargs)
        with torch._C.DisableTorchFunction():
            if not isinstance(func, torch._ops.OpOverload):
                return run_opaque(self.world, func, args, kwargs)
            return run(self.world, func, args, kwargs)


def run(world: World, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    inputs = tensors_in((args, dict(kwargs)))
    materialised = world.scope.explicit and world.scope.place != HOST and _takes_device(func)
    if not materialised and any(tensor.device.type != "cpu" for tensor in inputs):  # meta tensors play no device
        return func(*args, **kwargs)
    indices = sorted({index_of(tensor) for tensor in inputs} - {HOST})
    target = _target(world, func, inputs, indices)
    if target == HOST and not indices:
        return _on_host(world, func, args, kwargs)
    device = indices[0] if target == HOST else target
    world.touched.add(device)
    if func.namespace == NAMESPACE:
        return run_functional(world, func, args, kwargs, device)
    if is_unknown(func, world.table):
        world.cannot_vouch(op_name(func))
    doubts = _doubts(world, inputs) if world.doubted else []
    entry = table_entry(func, world.table)
    stream = world.stream(device)
    session = world.session
    capturing = session if session is not None and stream in session.clocks else None
    if capturing is not None:
        capturing.admit()
    for happening in happenings(func, args, kwargs, target, world.scope, world.table):
        _announce(world, func, happening, session, capturing)
    draw = _draw(world, func, args, kwargs, device, capturing is not None)
    frozen = None
    if capturing is not None:
        written = _written(func, entry, args, kwargs)
        for tensor in written:
            capturing.save(tensor)
        frozen = _freeze((tuple(args), dict(kwargs)), {id(tensor) for tensor in written})
    elif session is not None:
        session.escaped.append(world.event("hidden-sync", op_name(func), device=f"cuda:{device}"))

    offset = 0
    try:
        if draw is None:
            result = perform(func, args, kwargs)
        else:
            state = draw.state
            offset = generators.advance(draw, capturing is not None)
            base = state.offset if capturing is not None else 0
            result = generators.draw(state.seed, base + offset, lambda: perform(func, args, kwargs))
    except NotImplementedError:
        world.cannot_vouch(f"{op_name(func)} (the CPU has no kernel for it)")
        raise

    on_host = () if entry is None else entry.host_results
    outputs = [tensor for at, tensor in enumerate(tensors_in(result)) if at not in on_host]
    if any(tensor.is_nested for tensor in (*inputs, *outputs)):
        world.cannot_vouch(f"{op_name(func)} of a nested tensor")
    _tag(world, func, kwargs, inputs, outputs, target, capturing)
    for tag in tags_of((*outputs, *_written(func, entry, args, kwargs))) if doubts else ():
        tag.doubt = tag.doubt or doubts[0]
    if capturing is not None and frozen is not None:
        node = _node(func, entry, frozen, inputs, outputs, None if draw is None else Draw(draw, offset))
        if node is not None:
            capturing.add(stream, node)
    return result


def run_opaque(world: World, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A higher-order operator (`flex_attention`): run, and not vouched for."""
    indices = {index_of(tensor) for tensor in tensors_in((args, dict(kwargs)))} - {HOST}
    result = func(*args, **kwargs)
    if indices:
        world.cannot_vouch(f"higher-order operator {func}")
        device = min(indices)
        for tensor in tensors_in(result):
            put_tag(tensor, device, world.ledgers[device], world.session)
    return result


def _doubts(world: World, inputs: Sequence[torch.Tensor]) -> list[str]:
    """What the values of `inputs` depend on and nobody can vouch for; in a step it counts."""
    found = [tag.doubt for tag in tags_of(inputs) if tag.doubt is not None]
    if world.stepping:
        world.unknown.update(dict.fromkeys(found))
    return found


def _on_host(world: World, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    if torch.Tag.nondeterministic_seeded in func.tags:
        world.emit("random", op_name(func), device="cpu", how="host-random")
    return func(*args, **kwargs)


def _target(world: World, func: Any, inputs: Sequence[torch.Tensor], indices: Sequence[int]) -> int:
    """The device of the result: the one the call names, else its arguments', else (made from nothing) the scope's."""
    scope = world.scope
    if _takes_device(func) and (scope.explicit or not inputs):
        return scope.place
    return indices[0] if indices else HOST


@functools.cache
def _takes_device(func: Any) -> bool:
    return any(argument.name == "device" for argument in func._schema.arguments)


def _announce(
    world: World, func: Any, happening: Happening, session: Session | None, capturing: Session | None
) -> None:
    name = op_name(func)
    if happening.data.get("certain") is False:
        world.cannot_vouch(f"{name} (whether it waits depends on sizes or values)")
        return
    refusal = happening.refusal
    if refusal is None:
        return
    world.refusals_seen += 1
    world.emit(happening.kind, name, happening.nbytes, **happening.data)
    # PyTorch's own check asks only whether the current stream is capturing; CUDA refuses a wait anywhere.
    if session is not None and (capturing is not None or refusal.invalidates):
        session.refuse(refusal, name, happening.kind, **happening.data)


def _draw(
    world: World, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], device: int, capturing: bool
) -> Generator | None:
    if not _is_random(func, args, kwargs):
        return None
    generator = world.scope.generator or world.generators[device]
    if generator.index != device:
        raise RuntimeError(f"Expected a 'cuda:{device}' generator device but found 'cuda:{generator.index}'")
    if generator is not world.generators[device]:
        world.emit("random", op_name(func), device=f"cuda:{device}", how="private-generator")
    generators.check(generator, capturing)
    return generator


def _is_random(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    for position, argument in enumerate(func._schema.arguments):
        value = args[position] if position < len(args) else kwargs.get(argument.name, argument.default_value)
        if argument.name in ("dropout_p", "dropout", "p") and value == 0:
            return False
        if argument.name in ("train", "training") and value is False:
            return False
    return True


def _written(func: Any, entry: Op | None, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """What the op writes by its schema, or by the op table where the schema does not say so."""
    unsaid = () if entry is None else entry.mutates
    found = []
    for position, argument in enumerate(func._schema.arguments):
        said = argument.alias_info is not None and argument.alias_info.is_write
        if said or argument.name in unsaid:
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            found += tensors_in(value)
    return found


def _freeze(value: Any, written: Set[int]) -> Any:
    """The same arguments over detached aliases, so that what the user later does to a tensor's shape or `.data` does
    not move the graph's addresses; a host tensor that no GPU can read is handed over by value."""
    if isinstance(value, torch.Tensor):
        by_value = index_of(value) == HOST and not is_pinned(value) and id(value) not in written
        return value.detach().clone() if by_value else value.detach()
    if isinstance(value, (list, tuple)):
        return type(value)(_freeze(item, written) for item in value)
    if isinstance(value, dict):
        return {key: _freeze(item, written) for key, item in value.items()}
    return value


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
        if put_tag(tensor, target, world.ledgers[target], session) and is_allocation(world.scope.via, world.table):
            world.emit("allocation", op_name(func), nbytes_of(tensor), device=f"cuda:{target}")


def _node(
    func: Any,
    entry: Op | None,
    frozen: Any,
    inputs: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
    draw: Draw | None,
) -> Node | None:
    """What a replay runs; `None` for an op that launches nothing, such as a view."""
    name = op_name(func)
    if entry is not None and not entry.launches:
        return None
    mutable = func._schema.is_mutable or (entry is not None and entry.mutates != ())
    if not mutable and not outputs and func._schema.returns:  # answered on the host (`equal` of different shapes)
        return None
    if not mutable and outputs:
        before = {storage._cdata for tensor in inputs for storage in storages(tensor)}
        if all(storage._cdata in before for tensor in outputs for storage in storages(tensor)):
            return None
    args, kwargs = frozen
    kind: NodeKind = "kernel"
    if name in _COPIES and len({(tensor.dtype, tensor.shape) for tensor in (*inputs, *outputs)}) == 1:
        kind = "memcpy"
    if name == "aten::_to_copy" and HOST in {index_of(tensor) for tensor in (*inputs, *outputs)}:
        kind = "memcpy"
    frames, span = user_frames()
    return Node(func, args, kwargs, tuple(tensor.detach() for tensor in outputs), name, kind, draw, frames, span)
