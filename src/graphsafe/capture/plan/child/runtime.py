"""A step as captured segments with eager breaks between them, captured in one pass and replayed in order.

Each segment is replayed right after its capture, so that the next break sees real values: the pass that captures is
itself a step. The values that a break hands over live in the tensors of that pass: each later run's results are copied
there.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import TYPE_CHECKING, Any

from graphsafe.capture.answers.events import CaptureFailure
from graphsafe.capture.child.probes.twin import uncollected
from graphsafe.capture.device.bits.tensor_bytes import layout_text
from graphsafe.capture.plan.child.rewrite import cut
from graphsafe.capture.plan.child.slots import Slots
from graphsafe.capture.plan.child.surroundings import surroundings
from graphsafe.capture.plan.child.values import UNBOUND, cells_of, content, flat, put
from graphsafe.capture.plan.shared.passed import beyond
from graphsafe.capture.shared.frames import traceback_frames, user_frames

if TYPE_CHECKING:
    import torch

    from graphsafe.capture.answers.events import StepEvent
    from graphsafe.capture.child.session import Session
    from graphsafe.capture.device.protocol import Pieces, Recording
    from graphsafe.capture.plan.shared.regions import Region
    from graphsafe.report.model import CallSite


class GuardBroken(Exception):
    """A break gave another value than in the captured pass, for whose value the graphs after it were captured."""

    def __init__(self, number: int, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.number = number
        "The number of the region."
        self.name = name
        self.why = why


class Elsewhere(Exception):
    """A break was reached inside of backward.

    On a GPU autograd runs it on threads of its own, where no capture can end and begin. (The simulated device has no
    such threads, and predicts for a device that has.)
    """


@dataclass(frozen=True, slots=True)
class Handed:
    """The values that a break hands to the captured code after it.

    `private`: variables whose memory belongs to the target and changes from step to step, so that they get a buffer.
    `slots`: paths of state that the break binds to new tensors and that captured code reads.
    """

    private: frozenset[str] = frozenset()
    slots: tuple[str, ...] = ()


@dataclass
class Graph:
    recording: Recording
    nodes: int

    def replay(self) -> None:
        self.recording.replay()


@dataclass
class Call:
    """One visit of a break."""

    number: int
    eager: Callable[[], Any]
    outputs: tuple[str, ...]
    handed: Handed
    session: Session
    beyond: frozenset[str] = frozenset()
    "Variables that it is not handed and does not hand over."
    _inputs: dict[str, Any] = field(default_factory=dict)
    _first: dict[str, Any] = field(default_factory=dict)
    _slots: Slots = field(init=False)
    _surroundings: Callable[[], AbstractContextManager[Any]] = field(init=False)
    _settled: set[str] = field(default_factory=set)

    @property
    def held(self) -> Mapping[str, torch.Tensor | None]:
        """State that the break binds anew -> the tensors that captured code reads instead."""
        return self._slots.before

    def run(self, handing: Callable[[], None] = lambda: None) -> Any:
        """Run the break, the first time between two captures. `handing` is called before the values it hands over are
        copied."""
        cells = cells_of(self.eager, self.beyond)
        self._inputs = {name: content(cell) for name, cell in cells.items()}
        self._slots = Slots(self.session.subject, self.handed.slots)
        self._surroundings = surroundings()
        result = self.eager()
        handing()
        self._slots.look()
        self._first = {name: content(cells[name]) for name in self.outputs if name in cells}
        for name in self.handed.private & self._first.keys():
            self._first[name] = _cloned(self._first[name])
            put(cells[name], self._first[name])
        if self.held:
            apart = {storage_of(tensor) for tensor in self.held.values() if tensor is not None}
            for name, value in self._first.items():
                if any(storage_of(tensor) in apart for tensor in flat(value).tensors):
                    self._first[name] = _cloned(value)
                    put(cells[name], self._first[name])
            self.settle()
        self._first["return"] = result
        return result

    def replay(self) -> None:
        cells = cells_of(self.eager, self.beyond)
        for name, value in self._inputs.items():
            put(cells[name], value)
        with self._surroundings():
            result = self.eager()
        pairs: list[tuple[torch.Tensor, torch.Tensor]] = []
        for name, first in self._first.items():
            new = result if name == "return" else content(cells[name])
            pairs += self._pairs(name, first, new)
        pairs += self._state_pairs()
        _copy_all(pairs)
        self._bind()

    def _pairs(self, name: str, first: Any, new: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
        if (first is UNBOUND) != (new is UNBOUND):
            raise GuardBroken(self.number, name, "it has a value in some steps only")
        if isinstance(first, (bool, int, float, str, type(None))) and type(first) is type(new) and first == new:
            return []
        one, other = flat(first), flat(new)
        if one.hosts != other.hosts:
            changed = next((pair for pair in zip(one.hosts, other.hosts, strict=False) if pair[0] != pair[1]), None)
            how = "another structure" if changed is None else f"{changed[1][1]} where {changed[0][1]} was captured"
            raise GuardBroken(self.number, name, how)
        found = []
        for old, tensor in zip(one.tensors, other.tensors, strict=True):
            if tensor is old or _same_memory(old, tensor):
                continue
            same = old.shape == tensor.shape and old.dtype == tensor.dtype and old.device == tensor.device
            if not same or not set(repeated(old)) <= set(repeated(tensor)):
                raise GuardBroken(self.number, name, f"{layout_text(tensor)} where {layout_text(old)} was captured")
            found.append((old, tensor))
        return found

    def _state_pairs(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        now = self._slots.tensors() if self.held else {}
        found = []
        for path, held in self.held.items():
            new = now.get(path)
            if held is None or new is None or new is held:
                continue
            if _alike(held, new):
                found.append((held, new))
            elif path in self._settled:
                raise GuardBroken(self.number, path, f"{layout_text(new)} where {layout_text(held)} was captured")
        return found

    def settle(self) -> None:
        """Leave state whose size the break changed as it is, since code that reads it has to run eagerly too; copy the
        rest into the captured tensors."""
        if not self.held:
            return
        now = self._slots.tensors()
        for path, held in self.held.items():
            if held is not None and path in now and _alike(held, now[path]):
                self._settled.add(path)
        _copy_all(self._state_pairs())
        self._bind()

    def _bind(self) -> None:
        now = self._slots.tensors() if self.held else {}
        for path, held in self.held.items():
            if held is not None and path in self._settled and now.get(path) is not held:
                self._slots.bind(path, held)


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype


def storage_of(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError):  # sparse, or without memory
        return 0


def _same_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    try:
        return (
            one.data_ptr() == other.data_ptr()
            and one.shape == other.shape
            and one.stride() == other.stride()
            and one.dtype == other.dtype
        )
    except RuntimeError:
        return False


def _copy_all(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Copy each source to its target. No copy may overwrite a tensor that a later one reads."""
    targets = {storage_of(target) for target, _ in pairs}
    for target, source in [(target, new.clone() if storage_of(new) in targets else new) for target, new in pairs]:
        copy(target, source)


def copy(target: torch.Tensor, source: torch.Tensor) -> None:
    import torch

    with torch.no_grad(), torch.inference_mode(target.is_inference()):
        target, source = target.detach(), source.detach()
        for dimension in repeated(target):  # expanded: one element stands for all
            target, source = target.narrow(dimension, 0, 1), source.narrow(dimension, 0, 1)
        target.copy_(source)


def repeated(tensor: torch.Tensor) -> tuple[int, ...]:
    """The dimensions along which a tensor is expanded."""
    import torch

    if tensor.layout != torch.strided:
        return ()
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return tuple(at for at, (size, stride) in enumerate(sizes) if stride == 0 and size > 1)


def _cloned(value: Any) -> Any:
    """Return the same structure over new tensors, whose strides do not follow memory that may change later."""
    import torch
    from torch.utils._pytree import tree_map

    def cloned(leaf: Any) -> Any:
        if not issubclass(type(leaf), torch.Tensor):
            return leaf
        return leaf.clone(memory_format=torch.contiguous_format) if leaf.layout == torch.strided else leaf.clone()

    return tree_map(cloned, value)


class PlannedRecording:
    """A captured step in pieces; see `graphsafe.capture.device.protocol.Recording`."""

    def __init__(self, outputs: Any, items: Sequence[Graph | Call], pieces: Pieces) -> None:
        self.outputs = outputs
        self.items = tuple(items)
        self._pieces = pieces

    def replay(self) -> None:
        for item in self.items:
            item.replay()

    def settle(self) -> None:
        """Copy the current state to where the segments read it, after a caller has put back state."""
        for item in self.items:
            if isinstance(item, Call):
                item.settle()

    def nodes(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for item in self.items:
            for kind, number in item.recording.nodes().items() if isinstance(item, Graph) else ():
                found[kind] = found.get(kind, 0) + number
        return found

    def pool_bytes(self) -> int | None:
        """Return the bytes of the one pool that all segments share."""
        first = next((item for item in self.items if isinstance(item, Graph)), None)
        return 0 if first is None else first.recording.pool_bytes()

    def differences(self, other: Recording) -> tuple[Any, ...]:
        return ()

    def opaque_nodes(self) -> int:
        return sum(item.recording.opaque_nodes() for item in self.items if isinstance(item, Graph))

    def release(self) -> None:
        for item in self.items:
            if isinstance(item, Graph):
                item.recording.release()
        self.outputs = None

    def escaped(self) -> tuple[StepEvent, ...]:
        return ()


def record(
    session: Session, regions: Sequence[Region], handed: Mapping[int, Handed]
) -> PlannedRecording | CaptureFailure:
    """Capture the step in segments, on the capture stream; it is a step, and changes what steps change.

    Raises GuardBroken and Elsewhere, and what a break raises.
    """
    return _Pass(session, handed).run(regions)


def _is_in_backward() -> bool:
    import torch

    return torch._C._current_graph_task_id() != -1


def _caller_of_backward(frame: FrameType) -> FrameType:
    """Return the frame of the outermost call of autograd's engine around `frame`; `frame` itself if there is none."""
    found, at = frame, frame
    while at.f_back is not None:
        if at.f_code.co_name == "_engine_run_backward":
            found = at
        at = at.f_back
    return found


class _Pass:
    def __init__(self, session: Session, handed: Mapping[int, Handed]) -> None:
        self._session = session
        self._handed = handed
        self._pieces = session.device.pieces()
        self._items: list[Graph | Call] = []
        self._depth = 0
        self._thread = threading.get_ident()
        self._failed: BaseException | None = None
        self._blamed: tuple[CallSite, ...] = ()
        self._beyond: Sequence[frozenset[str]] = ()

    def run(self, regions: Sequence[Region]) -> PlannedRecording | CaptureFailure:
        device = self._session.device
        self._beyond = beyond(regions)
        outputs: Any = None
        # Garbage collected while a piece is captured would free device memory in the middle of it.
        with device.capture_stream(), cut(regions, self._visit), uncollected():
            try:
                self._pieces.begin()
                outputs = self._session.subject()
                self._end()
            except Exception as error:
                return self._failure(self._failed or error)
        if self._failed is not None:  # the user's code swallowed it
            return self._failure(self._failed)
        device.synchronize()
        return PlannedRecording(outputs, self._items, self._pieces)

    def _failure(self, error: BaseException) -> CaptureFailure:
        """Return the failure; an error without a place of its own gets the place that was reached."""
        failure = self._pieces.failure(error)
        return replace(failure, frames=self._blamed) if self._blamed else failure

    def _end(self) -> None:
        recording = self._pieces.end()
        nodes = sum(recording.nodes().values())
        if nodes:
            self._items.append(Graph(recording, nodes))
            recording.replay()

    def _visit(self, number: int, eager: Callable[[], Any], outputs: tuple[str, ...]) -> Any:
        if self._depth:
            return eager()
        if threading.get_ident() != self._thread or _is_in_backward():
            self._blamed, _ = user_frames(_caller_of_backward(sys._current_frames()[self._thread]))
            raise Elsewhere("a break inside of backward, which runs on autograd's own threads")
        call = Call(number, eager, outputs, self._handed.get(number, Handed()), self._session, self._beyond[number])
        self._depth += 1
        try:
            self._end()
            result = call.run()
            self._items.append(call)
            self._pieces.begin()
        except Exception as error:
            self._failed = self._failed or error
            if not traceback_frames(error.__traceback__)[0]:
                self._blamed, _ = user_frames()
            raise
        finally:
            self._depth -= 1
        return result
