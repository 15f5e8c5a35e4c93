"""Runs steps eagerly with breaks in place and logs every operation, to find the values that captured segments would
freeze.

`freezes.py` compares several such steps on new inputs. The logs only propose breaks, because a dispatch mode changes
the launches of compiled code. The later capture decides.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import torch

from graphsafe.capture.child.session import Session
from graphsafe.capture.child.state import MISSING, reachable_state
from graphsafe.capture.device.modes import OperationMode, outside_modes
from graphsafe.capture.device.structures import by_schema, is_written
from graphsafe.capture.plan.child.call import BreakValues, Call
from graphsafe.capture.plan.child.copies import storage_address
from graphsafe.capture.plan.child.modules import ModuleStack
from graphsafe.capture.plan.child.rewrite import cut
from graphsafe.capture.plan.child.values import cells_of, flat, shallow
from graphsafe.capture.plan.shared.regions import Region, function_with
from graphsafe.capture.shared.frames import frames_under
from graphsafe.optable import OpTable
from graphsafe.report.model import CallSite

_SHOWN_VALUES = 64
"The largest number of elements of a host tensor whose values are compared."


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of a tensor, in a form that can be compared with another step."""

    born: int | None
    "The number of the operation in this step that allocated the memory; None for memory that is older than the step."
    address: int | None
    path: str | None
    "The path of the state that held the tensor when the step began."


@dataclass(frozen=True, slots=True)
class Argument:
    size: str
    "The size and the dtype."
    strides: tuple[int, ...]
    offset: int
    memory: Memory | None
    values: str | None = None
    "The values of a small host tensor."

    @property
    def layout(self) -> tuple[str, tuple[int, ...]]:
        return self.size, self.strides


@dataclass(slots=True)
class Op:
    number: int
    name: str
    frames: tuple[CallSite, ...]
    visit: int | None
    "The visit of a break in which the operation ran; None if the operation would be captured."
    after: int
    "Number of visits of breaks before the operation."
    scalars: tuple[str, ...]
    arguments: tuple[Argument, ...]
    module: str
    launches: bool
    on_device: bool
    elsewhere: bool
    "Whether the operation ran on another GPU."
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    "The storages that the operation writes."
    random: bool
    recorded: bool
    "Whether autograd records the operation."
    backward: bool


@dataclass(slots=True)
class Flow:
    """A variable of a break, at the beginning or at the end of the break."""

    hosts: Any
    arguments: tuple[Argument, ...]
    persistent: bool
    "Whether the value is a container in the target's state. A break can reach such a container without an argument."


@dataclass(slots=True)
class Visit:
    number: int
    "The number of the region."
    frames: tuple[CallSite, ...]
    "The calls that lead to the break."
    entered: Mapping[str, Flow]
    left: Mapping[str, Flow] = field(default_factory=dict)
    taken: Set[str] = frozenset()
    received: bool = False
    "Whether a later break, or the caller of the step, received the visit's return value."
    changed: tuple[str, ...] = ()
    """Variables of the visit that hold a container that the break changed, or any iterator, because a break advances
    iterators."""
    handed: frozenset[int] = frozenset()
    "Storages that the break passes to captured code."
    private: frozenset[int] = frozenset()
    "The storages in `handed` that are copies of the target's own memory."


@dataclass
class Log:
    """The log of one step."""

    ops: list[Op] = field(default_factory=list)
    visits: list[Visit] = field(default_factory=list)
    paths: Mapping[int, str] = field(default_factory=dict)
    "Storage -> path of the state that holds it at the end of the step."
    made_by: dict[int, int] = field(default_factory=dict)
    "Storage -> number of the operation that made it."


def watched(session: Session, regions: Sequence[Region], handed: Sequence[BreakValues], ops: OpTable) -> Log:
    """Run one step on the current inputs, and return its log."""
    return _Watch(session, handed, ops).run(regions)


class _Watch:
    def __init__(self, session: Session, handed: Sequence[BreakValues], ops: OpTable) -> None:
        self._session = session
        self._handed = handed
        self._table = ops
        self.log = Log()
        self._inside: int | None = None
        self._is_handing = False
        self._alive: list[Any] = []
        self._modules = ModuleStack(session.subject)
        self._before: dict[int, str] = {}
        self._containers: set[int] = set()
        self._regions: Sequence[Region] = ()
        self._calls: list[Call] = []
        self._thread = threading.get_ident()

    def run(self, regions: Sequence[Region]) -> Log:
        session = self._session
        self._regions = regions
        with outside_modes():
            reach = reachable_state(session.subject)
            self._before = {key: path for path, tensor in reach.tensors.items() for key in self._keys(tensor)}
            self._containers = {id(held) for held in (*reach.sized.values(), *reach.tuples.values())}
        with session.device.capture_stream(), cut(regions, self._visit), self._modules.watched(), _Ops(self):
            result = session.step()
        givers = [giver for later in self._calls for giver in later.taken.values()]
        givers += [call for call in self._calls if call.handed.returns and call.latest is result][-1:]
        for visit, call in zip(self.log.visits, self._calls, strict=True):
            visit.received = call in givers
        with outside_modes():
            after = reachable_state(session.subject)
            self.log.paths = {key: path for path, tensor in after.tensors.items() for key in self._keys(tensor)}
        self._alive.clear()
        return self.log

    def _visit(self, number: int, eager: Callable[[], Any], outputs: tuple[str, ...]) -> Any:
        if self._inside is not None:
            return eager()
        handed = self._handed[number]
        cells = cells_of(eager, handed.beyond)
        before = {name: cell.read() for name, cell in cells.items()}
        frames = frames_under(self._thread)
        region = self._regions[number]
        read = {name: value for name, value in before.items() if function_with(region).reads(region, name)}
        visit = Visit(number, frames, {name: self._flow(value) for name, value in read.items()})
        shapes = {name: shallow(value) for name, value in before.items() if id(value) not in self._containers}
        self._inside = len(self.log.visits)
        self.log.visits.append(visit)
        try:
            call = Call(number, eager, outputs, handed, self._session, frames)
            self._calls.append(call)
            result = call.run(self._calls[:-1], self._handing)
            visit.taken = frozenset(call.taken)
        finally:
            self._inside, self._is_handing = None, False
        visit.changed = tuple(
            name
            for name, shape in shapes.items()
            if shape != shallow(before[name]) or isinstance(before[name], Iterator)
        )
        results = {**{name: cells[name].read() for name in outputs if name in cells}, "return": result}
        visit.left = {name: self._flow(value) for name, value in results.items()}
        given = [value for name, value in results.items() if name != "return" or not handed.returns]
        held = [tensor for tensor in call.held.values() if tensor is not None]
        with outside_modes():
            visit.handed = self._keys_in([*given, held])
            visit.private = self._keys_in([results.get(name) for name in handed.private])
        return result

    def _keys_in(self, values: list[Any]) -> frozenset[int]:
        return frozenset(key for value in values for tensor in flat(value).tensors for key in self._keys(tensor))

    def _handing(self) -> None:
        """Stop logging launches while the break passes on its values, because the copies of these values are not work
        of the step."""
        self._is_handing = True

    def _flow(self, value: Any) -> Flow:
        if value is MISSING:
            return Flow("unbound", (), False)
        parts = flat(value)
        with outside_modes():
            arguments = tuple(self.argument(tensor) for tensor in parts.tensors)
        return Flow(parts.hosts, arguments, id(value) in self._containers)

    def note(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Log an operation. The results of the operation are kept alive until the step ends, so that no address is used
        twice."""
        name = func._schema.name
        inputs = flat((args, kwargs))
        outputs = flat(result).tensors
        device = self._session.device
        tensors = (*inputs.tensors, *outputs)
        on_device = any(device.is_on_device(tensor) for tensor in tensors)
        elsewhere = any(device.is_on_other_gpu(tensor) for tensor in tensors)
        with torch._C.DisableTorchFunction():
            reads = tuple(key for tensor in inputs.tensors for key in self._keys(tensor))
            number = len(self.log.ops)
            arguments = tuple(self.argument(tensor) for tensor in inputs.tensors)
            for tensor in outputs:
                for key in self._keys(tensor):
                    if key not in reads and key not in self._before:
                        self.log.made_by.setdefault(key, number)
        frames = frames_under(self._thread)
        entry = self._table.aten(name, func._overloadname)
        views = bool(outputs) and all(key in reads for tensor in outputs for key in self._keys(tensor))
        mutable = func._schema.is_mutable
        written = [value for argument, value in by_schema(func, args, kwargs) if mutable and is_written(argument)]
        launches = (entry is None or entry.launches) and (mutable or not views)
        self.log.ops.append(
            Op(
                number=number,
                name=name,
                frames=frames,
                visit=self._inside,
                after=len(self.log.visits),
                scalars=tuple(f"{path}={text}" for path, text in inputs.hosts),
                arguments=arguments,
                module=self._modules.current,
                launches=launches and (on_device or elsewhere) and not self._is_handing,
                on_device=on_device,
                elsewhere=elsewhere,
                reads=reads,
                writes=tuple(self._keys_in(written)),
                random=torch.Tag.nondeterministic_seeded in func.tags,
                recorded=torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs.tensors),
                backward=torch._C._current_graph_task_id() != -1,
            )
        )

    def argument(self, tensor: torch.Tensor) -> Argument:
        try:
            offset, strides = int(tensor.storage_offset()), tensor.stride()
        except RuntimeError:  # the tensor is sparse or nested
            offset, strides = 0, ()
        size = f"{tensor.dtype} {tuple(tensor.shape)}"
        keys = self._keys(tensor)
        if not self._session.device.is_on_device(tensor):
            small = tensor.numel() <= _SHOWN_VALUES and not tensor.is_meta and tensor.layout == torch.strided
            from_before = bool(keys) and keys[0] in self._before
            is_host = tensor.device.type == "cpu" and type(tensor) in (torch.Tensor, torch.nn.Parameter)
            values = str(tensor.detach().tolist()) if small and not from_before and is_host else None
            return Argument(size, strides, offset, None, values)
        if not keys:
            return Argument(size, strides, offset, None)
        born = self.log.made_by.get(keys[0])
        address = None if born is not None else storage_address(tensor)
        return Argument(size, strides, offset, Memory(born, address, self._before.get(keys[0])))

    def _keys(self, tensor: torch.Tensor) -> tuple[int, ...]:
        try:
            storage = tensor.untyped_storage()
        except (RuntimeError, NotImplementedError):
            return ()
        self._alive.append(storage)
        return (int(storage._cdata),)


class _Ops(OperationMode):  # type: ignore[no-untyped-call]
    def __init__(self, watch: _Watch) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._watch = watch

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(func, torch._ops.OpOverload):
            self._watch.note(func, args, kwargs or {}, result)
        return result
