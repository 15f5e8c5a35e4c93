"""Reports the simulated device's writes, and the calls that order its streams, to `Refills`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from graphsafe.capture.device.sim.effects import op_name, table_entry, written_by
from graphsafe.capture.device.sim.nodes import SimStream
from graphsafe.capture.device.sim.streams import Event, Stream
from graphsafe.capture.device.sim.tags import HOST, index_of, is_pinned
from graphsafe.capture.device.sim.world import World
from graphsafe.capture.device.structures import copy_of
from graphsafe.capture.shared.replaced import replaced
from graphsafe.run.child.host_inputs import HostInputs
from graphsafe.run.child.names import storage_numbers
from graphsafe.run.child.refills import Refills, parts_of

_WAITS = frozenset({"read", "extent", "hidden-sync", "copy-to-host", "copy-to-device"})
"Kinds of events in which the host waits for the current stream, unless the call has `non_blocking=True`."


def watch_order(world: World, refills: Refills, host: HostInputs) -> AbstractContextManager[None]:
    """Report these calls while the returned context is active."""

    def waited(sim_stream: SimStream | None = None, event: Event | None = None) -> None:
        host.look()
        refills.host_waited(None if sim_stream is None else sim_stream.key, event)

    def recorded(event: Event, stream: Stream | None = None) -> None:
        refills.recorded(event, (world.current_sim_stream() if stream is None else stream.sim_stream).key)

    changes = [
        _after(Stream, "wait_event", lambda stream, event: refills.waited(stream.sim_stream.key, event)),
        _after(Event, "record", recorded),
        _after(Event, "elapsed_time", lambda _, end_event: waited(event=end_event)),
    ]
    for name in ("query", "synchronize"):  # a query that returns True orders the streams as a wait does
        changes.append(_after(Event, name, lambda event: waited(event=event)))
        changes.append(_after(Stream, name, lambda stream: waited(stream.sim_stream)))
    emit, host_wait = world.emit, world.host_wait

    def emitted(kind: Any, op: str, *args: Any, **data: Any) -> None:
        if kind in _WAITS and not data.get("non_blocking"):
            waited(world.current_sim_stream())
        emit(kind, op, *args, **data)

    def told(op: str, *args: Any, **keywords: Any) -> None:
        host_wait(op, *args, **keywords)
        if op in ("torch.cuda.synchronize", "torch.accelerator.synchronize"):
            waited()

    return replaced(*changes, (world, "emit", emitted), (world, "host_wait", told))


def note_writes(
    world: World,
    refills: Refills,
    host: HostInputs,
    func: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    outputs: Sequence[torch.Tensor],
) -> list[torch.Tensor]:
    """Report an operation that ran eagerly. Return the tensors that it wrote."""
    if not isinstance(func, torch._ops.OpOverload):
        return []
    queued = _queued(op_name(func), args, kwargs, outputs)
    if queued is not None:
        source, device = queued
        host.copied(world.current_sim_stream(device).key, source)
    written = written_by(func, table_entry(func, world.table), args, kwargs)
    if written:
        storages = storage_numbers(written)
        host.leave(storages)
        device = max(index_of(tensor) for tensor in written)
        if device >= 0:
            stream = world.current_sim_stream(device).key
            refills.wrote(stream, storages, parts=parts_of(written))
            if op_name(func) == "aten::copy_" and index_of(args[1]) != HOST:
                refills.fed(stream, args[1], storages)
    return written


def _queued(
    name: str, args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, int] | None:
    """Return the pinned tensor from which a non-blocking copy reads, and the index of the copy's device. Return None
    for other operations.

    A copy that changes the type or the order of the numbers is left out: PyTorch first makes another copy on the host.
    """
    if name != "aten::copy_" and (name != "aten::_to_copy" or not outputs):
        return None
    source, given, is_queued = copy_of(name, args, kwargs)
    target = outputs[0] if given is None else given
    if not is_queued or index_of(target) == HOST or not is_pinned(source) or not source.is_contiguous():
        return None
    return (source, index_of(target)) if target.dtype == source.dtype and target.shape == source.shape else None


def _after(owner: Any, name: str, tell: Callable[..., None]) -> tuple[Any, str, Any]:
    """Return a replacement for a method. After the method has run, `tell` is called with the same arguments."""
    original = getattr(owner, name)

    def told(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        tell(*args, **kwargs)
        return result

    return owner, name, told
