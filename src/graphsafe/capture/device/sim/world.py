"""The state of a process's simulated devices: the current device and streams, the generators, and the open capture."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from graphsafe.capture.answers.events import Asked, StepEvent, StepEventKind
from graphsafe.capture.device.sim.effects import Scope
from graphsafe.capture.device.sim.generators import Generator
from graphsafe.capture.device.sim.legality import NOT_PERMITTED, Refusal
from graphsafe.capture.device.sim.nodes import SimStream
from graphsafe.capture.device.sim.session import Session
from graphsafe.capture.device.sim.shapes import Shapes
from graphsafe.capture.device.sim.tags import Ledger, Tag
from graphsafe.capture.shared.frames import torch_function, user_frames
from graphsafe.capture.shared.places import at_line
from graphsafe.capture.shared.replaced import replaced
from graphsafe.optable import OpTable
from graphsafe.report.probes.construct import Attempt

LAUNCHED = frozenset(("kernel", "graph"))
"Kinds of work that count as launches."


class _ThreadState(threading.local):
    """The state of which each thread has its own copy. A new thread starts with the process's first device and the
    default streams."""

    def __init__(self, device: int, streams: Sequence[SimStream]) -> None:
        self.device = device
        "The current device."
        self.scope = Scope()
        self.bypassed = False
        "Whether operations run plainly, without tags and records."
        self.current_streams = list(streams)
        "The current stream of each device."


class World:
    def __init__(self, count: int, device: int, table: OpTable) -> None:
        self.count = count
        self.table = table
        self.ledgers = [Ledger() for _ in range(count)]
        self.defaults = [SimStream(each, number=0) for each in range(count)]
        "The default stream of each device."
        self.here = _ThreadState(device, self.defaults)
        self.generators = tuple(Generator(each, self) for each in range(count))
        "The default generator of each device."
        self.touched: set[int] = {device}
        "The devices that have a context."
        self.session: Session | None = None
        self.graphs: weakref.WeakSet[Any] = weakref.WeakSet()
        "The captured graphs, as objects of `graphs.CUDAGraph`."
        self.sink: Callable[[StepEvent], None] | None = None
        self.ran: Callable[[Any, Sequence[Any], Mapping[str, Any], Sequence[torch.Tensor]], None] | None = None
        """A function that is called for each operation that ran eagerly on a device, with the operation's results; None
        if nothing needs these calls."""
        self.resized: Callable[[torch.UntypedStorage], None] = lambda _: None
        "A function that is called with each storage on a device before `resize_` gives the storage other memory."
        self.attempts: Callable[[Attempt], None] | None = None
        self.launched: Callable[[str, str], None] | None = None
        """A function that is called with the kind (`graph`, or a node's kind) and the name of each launch; None if
        nothing needs these calls."""
        self.stepping = False
        "Whether a step has begun. Before the first step, the target is imported and built."
        self.shapes: Shapes | None = None
        "The runner that computes shapes and no values; None if values are computed."
        self.unknown: dict[str, int] = {}
        """Unknown effect of a step (with its line) -> the number of the thread in which it occurred. The entries are in
        the order of the effects."""
        self.doubted = False
        "Whether the values of any memory depend on an unknown effect. The memory's tag names the effect."
        self.refusals_seen = 0
        "Number of events that a capture would refuse."
        self.limits: dict[str, str] = {}
        "The text of a limit -> the reason."
        self.asked: Callable[[Asked], None] | None = None
        """A function that is called when code asks whether a capture is under way; the code then gets the answer True.
        If this function is None, the code gets the true answer."""
        self.collective_lanes: dict[int, SimStream] = {}
        "Device -> the stream on which it runs collectives."
        self.capture_lane: SimStream | None = None
        "The stream that `torch.cuda.graph` makes once for the whole process."

    def installed(self) -> AbstractContextManager[None]:
        return replaced((sys.modules[__name__], "_current", self))

    def on(self, index: int) -> AbstractContextManager[None]:
        return replaced((self.here, "device", index))

    @property
    def bypassed(self) -> bool:
        """Whether this thread's operations run plainly. This is also true of threads that outlive the device."""
        return self.here.bypassed or _current is not self

    def current_sim_stream(self, index: int | None = None) -> SimStream:
        return self.here.current_streams[self.here.device if index is None else index]

    def set_current_stream(self, sim_stream: SimStream) -> None:
        self.here.device = sim_stream.device_index
        self.here.current_streams[sim_stream.device_index] = sim_stream

    def is_capturing(self, index: int | None = None) -> bool:
        return self.session is not None and self.current_sim_stream(index) in self.session.clocks

    def says_capturing(self) -> bool:
        """Answer a call of `torch.cuda.is_current_stream_capturing`."""
        if self.asked is None:
            return self.is_capturing()
        frames, span = user_frames()
        if frames:
            self.asked(Asked(frames, span))
        return True

    @contextmanager
    def unseen(self) -> Iterator[None]:
        with replaced((self.here, "bypassed", True)), torch._C.DisableTorchFunction():
            yield

    def record_unknown_effect(self, what: str, made: Iterable[Tag] = ()) -> None:
        """Record an unknown effect.

        After an unknown effect in a step, no verdict can be `ready`. An effect outside of steps counts as an effect of
        a step only when a step reads memory that the effect wrote (`made`), or replays a graph that captured the
        effect.
        """
        frames, _ = user_frames()
        text = what + at_line(frames)
        if self.stepping:
            self.met([text])
        elif self.session is not None:
            self.session.doubts.append(text)
        for tag in made:
            tag.doubt = tag.doubt or text
            self.doubted = True

    def met(self, unknown: Iterable[str]) -> None:
        """Record unknown effects of a step."""
        for text in unknown:
            self.unknown.setdefault(text, threading.get_ident())

    def within(self, scope: Scope) -> AbstractContextManager[None]:
        return replaced((self.here, "scope", scope))

    def via(self, name: str) -> AbstractContextManager[None]:
        """Set the name of the running torch function in this block, unless an outer function already has its name
        set."""
        return self.within(Scope(via=self.here.scope.via or name))

    def event(self, kind: StepEventKind, op: str, nbytes: int | None = None, **data: Any) -> StepEvent:
        frames, span = user_frames()
        return StepEvent(kind, op, frames, span, self.here.scope.via, nbytes, data, torch_function(sys._getframe()))

    def emit(self, kind: StepEventKind, op: str, nbytes: int | None = None, **data: Any) -> None:
        if self.sink is not None:
            self.sink(self.event(kind, op, nbytes, **data))

    def launches_reported(self, on_launch: Callable[[str, str], None]) -> AbstractContextManager[None]:
        """In this block, also call a function with the kind and the name of each launch."""
        before = self.launched

        def launched(kind: str, name: str) -> None:
            on_launch(kind, name)
            if before is not None:
                before(kind, name)

        return replaced((self, "launched", launched))

    def host_wait(self, op: str, kind: StepEventKind, refusal: Refusal | None = NOT_PERMITTED) -> None:
        """Report that the host waits for the device, or queries its progress."""
        with self.via(op):
            self.emit(kind, op)
            if refusal is not None:
                self.refuse(refusal, op, kind)

    def refuse(self, refusal: Refusal, op: str, kind: StepEventKind, **data: Any) -> None:
        """Raise `refusal` if a capture is open. The capture keeps the first refusal, with its line."""
        __tracebackhide__ = True
        if self.session is not None:
            self.session.refuse(refusal, self.event(kind, op, **data))


_current: World | None = None


def current() -> World:
    if _current is None:
        raise RuntimeError("a simulated device is used outside its entered()")
    return _current


def active() -> World | None:
    return _current


def simulated(real: Callable[..., Any], act: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `act(world, real, ...)` while a simulated device sees the call, else `real(...)`."""

    def call(*args: Any, **kwargs: Any) -> Any:
        world = _current
        if world is None or world.bypassed:
            return real(*args, **kwargs)
        return act(world, real, *args, **kwargs)

    return call
