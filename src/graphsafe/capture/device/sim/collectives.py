"""Collectives between ranks. Gloo runs the collectives on the host, but streams wait for them as streams wait for NCCL
on a GPU.

An asynchronous collective runs on a stream of its own, and `wait()` makes the current stream wait for that stream. The
host never waits. As on a GPU, nothing is sent during a capture; only a replay exchanges data with the other ranks.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist

from graphsafe.capture.device.sim import world as worlds
from graphsafe.capture.device.sim.legality import EVENT_IN_CAPTURE
from graphsafe.capture.device.sim.nodes import Node, SimStream
from graphsafe.capture.device.sim.streams import Event, Stream
from graphsafe.capture.device.sim.tags import HOST, max_device_index, put_tag
from graphsafe.capture.device.sim.world import World
from graphsafe.capture.device.structures import changed, each_tensor, tensors_in
from graphsafe.capture.shared.collectives import OF_GROUPS, OF_OBJECTS
from graphsafe.capture.shared.frames import user_frames

NAMESPACE = "_c10d_functional"
_METHODS = {**OF_GROUPS, "send": "send", "recv": "recv"}


def replacements() -> Iterator[tuple[Any, str, Any]]:
    if not dist.is_available():
        return
    for name, spelled in _METHODS.items():
        if hasattr(dist.ProcessGroup, name):
            real = getattr(dist.ProcessGroup, name)
            yield dist.ProcessGroup, name, worlds.simulated(real, partial(_of_group, Collective(spelled, real)))
    for name in OF_OBJECTS:
        real = getattr(dist, name)
        value = functools.wraps(real)(worlds.simulated(real, partial(_of_objects, f"torch.distributed.{name}")))
        yield dist, name, value
        yield dist.distributed_c10d, name, value


def _of_group(
    collective: Collective, world: World, real: Callable[..., Any], group: Any, *args: Any, **kwargs: Any
) -> Any:
    """Run or record a collective of a process group."""
    name = collective.name
    if name == "barrier":
        world.host_wait("torch.distributed.barrier", "wait")
    index = max_device_index((args, kwargs))
    if index == HOST:
        return real(group, *args, **kwargs)
    stream = _begun(world, index, f"torch.distributed.{name}")
    if stream is None:
        with world.unseen():
            return SimWork(Event(), collective.send(group, args, kwargs))
    session = world.session
    assert session is not None
    with world.unseen():
        for tensor in tensors_in((args, kwargs)):
            session.save(tensor)
    given = _frozen((group, *args))
    written = () if name == "send" else tuple(tensors_in(given[1:2]))  # results come first; inputs may be among them
    _add(world, stream, collective, given, _frozen(kwargs), (), written)
    return SimWork(stream.record_event())


def run_functional(world: World, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], index: int) -> Any:
    """Run an operation of `torch.distributed._functional_collectives`. DTensor uses these operations."""
    # This operation only wraps a result in a tensor. The first use of that tensor waits for the collective.
    if func._schema.name.startswith(f"{NAMESPACE}::_"):
        return func(*args, **kwargs)
    if func._schema.name == f"{NAMESPACE}::wait_tensor":
        Stream.of(world.current_sim_stream(index)).wait_event(_stream(world, index).record_event())
        return func(*args, **kwargs) if world.session is None else args[0]
    stream = _begun(world, index, func._schema.name)
    result = _functional(func)(*args, **kwargs) if stream is None else _shaped(func, args, kwargs)
    for tensor in tensors_in(result):
        put_tag(tensor, index, world.ledgers[index], world.session)
    if stream is not None:
        outputs = tuple(tensor.detach() for tensor in tensors_in(result))
        _add(world, stream, _functional(func), _frozen(tuple(args)), _frozen(dict(kwargs)), outputs)
    return result


def _begun(world: World, index: int, name: str) -> Stream | None:
    """Return the stream on which a collective is captured. Return None if the collective is not captured and runs
    now."""
    world.touched.add(index)
    session, current = world.session, world.current_sim_stream(index)
    if session is None:
        return None
    if current not in session.clocks:
        session.escaped.append(world.event("hidden-sync", name, device=f"cuda:{index}"))
        return None
    session.admit()
    stream = _stream(world, index)
    stream.wait_stream(Stream.of(current))
    return stream


def _stream(world: World, index: int) -> Stream:
    return Stream.of(world.collective_lanes.setdefault(index, SimStream(index)))


def _add(
    world: World,
    stream: Stream,
    func: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    outputs: tuple[Any, ...],
    written: tuple[torch.Tensor, ...] = (),
) -> None:
    assert world.session is not None
    frames, span = user_frames()
    world.session.add(
        Node(stream.sim_stream, func, args, kwargs, outputs, func.name, "kernel", None, frames, span, written)
    )


@dataclass(frozen=True)
class Collective:
    """The function that a replay calls in place of the captured collective."""

    name: str
    real: Callable[..., Any]
    tags: tuple[Any, ...] = ()
    _schema = SimpleNamespace(
        name="torch.distributed", is_mutable=True, arguments=[SimpleNamespace(name=f"argument {n}") for n in range(8)]
    )

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        group, *rest = _thawed(args)
        self.send(group, rest, _thawed(kwargs))

    def send(self, group: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run the collective to its end, so that later operations on the same stream find its result. Return its work
        object. A `send` does not wait, because the receiving rank may itself send first."""
        if self.name != "send":
            work = self.real(group, *args, **kwargs)
            if work is not None:
                work.wait()
            return work
        copies, *rest = args
        work = self.real(group, [tensor.clone() for tensor in copies], *rest, **kwargs)
        _sent.append(work)
        return work


@dataclass(frozen=True)
class Functional:
    name: str
    real: Any
    tags: tuple[Any, ...] = ()

    @property
    def _schema(self) -> Any:
        return self.real._schema

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self.real(*_thawed(args), **_thawed(kwargs))
        for tensor in tensors_in(result):
            torch.ops._c10d_functional.wait_tensor.default(tensor)
        return result


@functools.cache
def _functional(func: Any) -> Functional:
    return Functional(str(func._schema.name), func)


def _shaped(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return new memory for the result of a captured collective. Return the argument itself if the collective works in
    place."""
    if func._schema.is_mutable:
        return args[0]
    meta = func(*_on_meta(args), **_on_meta(dict(kwargs)))
    made = [torch.zeros(each.shape, dtype=each.dtype) for each in tensors_in(meta)]
    return made if isinstance(meta, (list, tuple)) else made[0]


def _on_meta(value: Any) -> Any:
    return each_tensor(value, lambda tensor: torch.empty_like(tensor, device="meta"))


@dataclass(frozen=True, eq=False)
class _Fixed:
    """A process group or the options of a collective. Two such objects are compared by their content, not by
    identity."""

    value: Any

    def __str__(self) -> str:
        if isinstance(self.value, dist.ProcessGroup):
            return f"group {self.value.group_name}"
        parts = {name: getattr(self.value, name, None) for name in ("reduceOp", "rootRank", "rootTensor")}
        parts["reduceOp"] = getattr(parts["reduceOp"], "op", None)
        return ", ".join(f"{name}={value}" for name, value in parts.items() if value is not None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Fixed) and type(self.value) is type(other.value) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


def _frozen(value: Any) -> Any:
    def freeze(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.detach()
        return leaf if leaf is None or isinstance(leaf, (bool, int, float, str)) else _Fixed(leaf)

    return changed(value, freeze)


def _thawed(value: Any) -> Any:
    return changed(value, lambda leaf: leaf.value if isinstance(leaf, _Fixed) else leaf)


_sent: deque[Any] = deque(maxlen=256)
"The work objects of recent sends. Each work object keeps its tensors alive."


class SimWork:
    """The `torch.distributed.Work` of a collective that has already finished on the host. As on a GPU, `wait` makes the
    current stream wait for the collective."""

    def __init__(self, event: Event, done: Any = None) -> None:
        """During a capture, `event` is recorded after the collective."""
        self._event = event
        self._done = done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._done, name)

    def wait(self, timeout: Any = None) -> bool:
        self._event.wait()
        return True

    def synchronize(self) -> None:
        self._event.wait()

    block_current_stream = synchronize

    def is_completed(self) -> bool:
        worlds.current().host_wait("torch.distributed.Work.is_completed", "query", EVENT_IN_CAPTURE)
        return True

    def is_success(self) -> bool:
        return True


def _of_objects(name: str, world: World, real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    world.host_wait(name, "hidden-sync")
    with world.unseen():
        return real(*args, **kwargs)
