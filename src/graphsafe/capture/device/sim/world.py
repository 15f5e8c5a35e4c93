"""What the simulated devices of a process remember: current device and streams, generators, the open capture."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch

from graphsafe.capture.device.protocol import Asked, CaptureAttempt, StepEvent, StepEventKind
from graphsafe.capture.device.sim.legality import NOT_PERMITTED, Refusal
from graphsafe.capture.device.sim.tags import HOST, Ledger, Tag
from graphsafe.capture.lines.frames import user_frames
from graphsafe.capture.lines.places import shown

if TYPE_CHECKING:
    from graphsafe.capture.device.sim.generators import Generator
    from graphsafe.capture.device.sim.graphs import CUDAGraph, Session
    from graphsafe.capture.device.sim.streams import Stream
    from graphsafe.optable import OpTable

WaitKind = Literal["wait", "query"]


@dataclass(frozen=True, slots=True)
class Scope:
    """What a Python-level torch call asked for, while the operations it is made of run."""

    via: str | None = None
    "The outermost such call, as the op table spells it."
    place: int = HOST
    "Where a tensor made from nothing is put."
    explicit: bool = False
    "The call names the device itself."
    generator: Generator | None = None
    literal: bool = False
    "The values come from Python objects."


class World:
    def __init__(self, count: int, device: int, table: OpTable) -> None:
        """`SimDevice` puts the default stream and generator of each device in."""
        self.count = count
        self.device = device
        self.table = table
        self.ledgers = [Ledger() for _ in range(count)]
        self.defaults: list[Stream] = []
        self.generators: list[Generator] = []
        self.streams: list[Stream] = []
        "The current one of each device."
        self.touched: set[int] = {device}
        "Devices with a live context."
        self.session: Session | None = None
        self.graphs: weakref.WeakSet[CUDAGraph] = weakref.WeakSet()
        "What was captured and is still there."
        self.scope = Scope()
        self.sink: Callable[[StepEvent], None] | None = None
        self.attempts: Callable[[CaptureAttempt], None] | None = None
        self.stepping = False
        "From the first step on; before, the target is imported and built."
        self.unknown: dict[str, None] = {}
        "What steps did that the device cannot vouch for, with its line, in the order in which it ran."
        self.doubted = False
        "Whether any memory holds what nobody can vouch for; its tags say what."
        self.refusals_seen = 0
        "How many things that a capture refuses have been seen."
        self.limits: dict[tuple[str, str], str] = {}
        self.bypassed = False
        "Operations run as what they are, CPU tensors, and nobody is told."
        self.asked: Callable[[Asked], None] | None = None
        "Where set, code that asks whether a capture is under way is told yes, and this is told of it."
        self.collective_streams: dict[int, Stream] = {}
        "On which each device runs collectives."
        self.capture_stream: Stream | None = None
        "The one that `torch.cuda.graph` makes for itself, for the whole process."

    @contextmanager
    def installed(self) -> Iterator[None]:
        global _current
        before, _current = _current, self
        try:
            yield
        finally:
            _current = before

    def checked(self, index: int) -> int:
        if not 0 <= index < self.count:
            raise RuntimeError("CUDA error: invalid device ordinal")
        return index

    def stream(self, index: int | None = None) -> Stream:
        return self.streams[self.device if index is None else index]

    def set_stream(self, stream: Stream) -> None:
        self.device = stream.device_index
        self.streams[stream.device_index] = stream

    def is_capturing(self, index: int | None = None) -> bool:
        return self.session is not None and self.stream(index) in self.session.clocks

    def says_capturing(self) -> bool:
        """The answer of `torch.cuda.is_current_stream_capturing`."""
        if self.asked is None:
            return self.is_capturing()
        frames, span = user_frames()
        if frames:
            self.asked(Asked(frames, span))
        return True

    @contextmanager
    def unseen(self) -> Iterator[None]:
        before, self.bypassed = self.bypassed, True
        try:
            with torch._C.DisableTorchFunction():
                yield
        finally:
            self.bypassed = before

    def warn_empty(self) -> None:
        warnings.warn(
            "The CUDA Graph is empty. This usually means that the graph was attempted to be captured on wrong device "
            "or stream.",
            stacklevel=3,
        )

    def cannot_vouch(self, what: str, made: Iterable[Tag] = ()) -> None:
        """For something that a step does: from then on no verdict can be `ready`. Outside of steps it counts as soon as
        a step reads the memory `made` by it, or replays a graph that holds it."""
        frames, _ = user_frames()
        text = f"{what} at {shown(frames[-1].path)}:{frames[-1].line}" if frames else what
        if self.stepping:
            self.unknown.setdefault(text)
        elif self.session is not None:
            self.session.doubts.append(text)
        for tag in made:
            tag.doubt = tag.doubt or text
            self.doubted = True

    @contextmanager
    def within(self, scope: Scope) -> Iterator[None]:
        before, self.scope = self.scope, scope
        try:
            yield
        finally:
            self.scope = before

    @contextmanager
    def via(self, name: str) -> Iterator[None]:
        """Name the Python-level call around what follows, unless one is named already."""
        with self.within(Scope(via=self.scope.via or name)):
            yield

    def event(self, kind: StepEventKind, op: str, nbytes: int | None = None, **data: Any) -> StepEvent:
        frames, span = user_frames()
        return StepEvent(kind, op, frames, span, self.scope.via, nbytes, data)

    def emit(self, kind: StepEventKind, op: str, nbytes: int | None = None, **data: Any) -> None:
        if self.sink is not None:
            self.sink(self.event(kind, op, nbytes, **data))

    def host_wait(self, op: str, kind: WaitKind, refusal: Refusal | None = NOT_PERMITTED) -> None:
        """The host waits for, or asks after, the device."""
        with self.via(op):
            self.emit(kind, op)
            if self.session is not None and refusal is not None:
                self.session.refuse(refusal, op, kind)


_current: World | None = None


def current() -> World:
    if _current is None:
        raise RuntimeError("a simulated device is used outside its entered()")
    return _current


def active() -> World | None:
    return _current
