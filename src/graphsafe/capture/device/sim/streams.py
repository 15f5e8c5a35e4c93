"""Streams and events as Python objects, with the order that they give to captured work.

Each stream of a capture has a clock. For every other stream, the clock gives how many of that stream's captured nodes
run before this stream's next node. A stream enters a capture by waiting for an event that was recorded in the capture.
The stream is joined when the capture's first stream has waited for all of the stream's work.
"""

from __future__ import annotations

from typing import Any

import torch

from graphsafe.capture.answers.events import StepEventKind
from graphsafe.capture.device.sim import world as worlds
from graphsafe.capture.device.sim.legality import EVENT_IN_CAPTURE, LEGACY_STREAM, UNCAPTURED_WORK
from graphsafe.capture.device.sim.nodes import SimStream
from graphsafe.capture.device.sim.session import Session


def device_index(device: Any) -> int:
    """Return the index of `device`, which is an int, a string, a torch.device, or None for the current device."""
    world = worlds.current()
    index = device
    if device is not None and not isinstance(device, int):
        named = torch.device(device)
        if named.type != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {named}")
        index = named.index
    if index is None or index < 0:
        return world.here.device
    if index >= world.count:
        raise RuntimeError("CUDA error: invalid device ordinal")
    return int(index)


class Stream:
    """`torch.cuda.Stream`."""

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        self.sim_stream = SimStream(device_index(device), priority=priority)

    @classmethod
    def of(cls, sim_stream: SimStream) -> Stream:
        stream = cls.__new__(cls)
        stream.sim_stream = sim_stream
        return stream

    @property
    def device_index(self) -> int:
        return self.sim_stream.device_index

    @property
    def device(self) -> torch.device:
        return torch.device("cuda", self.device_index)

    @property
    def priority(self) -> int:
        return self.sim_stream.priority

    @property
    def cuda_stream(self) -> int:
        return self.sim_stream.number

    stream_id = cuda_stream
    _as_parameter_ = cuda_stream

    @staticmethod
    def priority_range() -> tuple[int, int]:
        return 0, -5

    def wait_event(self, event: Event) -> None:
        world = worlds.current()
        session = world.session
        if session is None or not event.recorded:
            return
        if event.session is session:
            if self.sim_stream.number == 0:
                world.refuse(LEGACY_STREAM, "torch.cuda.Stream.wait_event", "hidden-sync")
            session.join(self.sim_stream, event.clock)
        elif self.sim_stream in session.clocks:
            # The stream that was not forked is at fault, so the error names the line of its work.
            work = None if event.stream is None else session.last_work.get(event.stream)
            session.refuse(UNCAPTURED_WORK, work or world.event("hidden-sync", "torch.cuda.Stream.wait_event"))

    def wait_stream(self, stream: Stream) -> None:
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def query(self) -> bool:
        self._host_wait("torch.cuda.Stream.query", "query")
        return True

    def synchronize(self) -> None:
        self._host_wait("torch.cuda.Stream.synchronize", "wait")

    def _host_wait(self, op: str, kind: StepEventKind) -> None:
        world = worlds.current()
        with world.on(self.device_index):
            world.host_wait(op, kind)

    def is_capturing(self) -> bool:
        world = worlds.current()
        if world.asked is not None and self.sim_stream == world.current_sim_stream():
            return world.says_capturing()
        return world.session is not None and self.sim_stream in world.session.clocks

    def __enter__(self) -> Stream:
        self._previous = StreamContext(self)
        self._previous.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._previous.__exit__()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.sim_stream == other.sim_stream

    def __hash__(self) -> int:
        return hash(self.sim_stream)

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device=cuda:{self.device_index} cuda_stream={self.sim_stream.number:#x}>"


class Event:
    """`torch.cuda.Event`."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, **_: Any
    ) -> None:
        self.enable_timing = enable_timing
        self.recorded = False
        self.stream: SimStream | None = None
        self.session: Session | None = None
        self.clock: dict[SimStream, int] = {}

    def record(self, stream: Stream | None = None) -> None:
        world = worlds.current()
        sim_stream = world.current_sim_stream() if stream is None else stream.sim_stream
        self.recorded, self.stream = True, sim_stream
        session = world.session
        if session is not None and sim_stream in session.clocks:
            self.session = session
            self.clock = dict(session.clocks[sim_stream])
        else:
            self.session = None

    def wait(self, stream: Stream | None = None) -> None:
        (stream or Stream.of(worlds.current().current_sim_stream())).wait_event(self)

    def query(self) -> bool:
        self._host_wait("torch.cuda.Event.query", "query")
        return True

    def synchronize(self) -> None:
        self._host_wait("torch.cuda.Event.synchronize", "wait")

    def elapsed_time(self, end_event: Event) -> float:
        if not (self.recorded and end_event.recorded):
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        end_event._host_wait("torch.cuda.Event.elapsed_time", "query")
        return 0.0

    def _host_wait(self, op: str, kind: StepEventKind) -> None:
        """Check a call by which the host queries or waits for an event. As on an H200, a capture refuses the call only
        if the event was recorded in the capture."""
        world = worlds.current()
        captured = world.session is not None and self.session is world.session
        world.host_wait(op, kind, EVENT_IN_CAPTURE if captured else None)

    def __repr__(self) -> str:
        return "<torch.cuda.Event>"


class StreamContext:
    """`torch.cuda.stream(...)`. The context also makes the stream's device current."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is None:
            return
        world = worlds.current()
        if self.stream.sim_stream.foreign:
            world.record_unknown_effect("torch.cuda.ExternalStream")
        self._device = world.here.device
        self._before = world.here.current_streams[self.stream.device_index]
        world.set_current_stream(self.stream.sim_stream)

    def __exit__(self, *_: object) -> None:
        if self.stream is None:
            return
        world = worlds.current()
        world.here.current_streams[self.stream.device_index] = self._before
        world.here.device = self._device


class DeviceContext:
    """`torch.cuda.device(...)`. A device of another kind, or -1, changes nothing."""

    def __init__(self, device: Any) -> None:
        if isinstance(device, (str, torch.device)) and torch.device(device).type != "cuda":
            device = None
        self.idx = -1 if device is None or device == -1 else device_index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        world = worlds.current()
        self.prev_idx = world.here.device
        if self.idx >= 0:
            world.here.device = self.idx

    def __exit__(self, *_: object) -> None:
        worlds.current().here.device = self.prev_idx
