"""Measures how long lines make the host wait for a GPU, and reports the calls that order the GPU's streams.

Such calls are waits, events, queries, and changes of the current stream. Just before PyTorch waits for a stream,
graphsafe synchronises the stream and measures the time that this takes. PyTorch's own wait then returns at once, so no
wait is added.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from types import CodeType
from typing import Any

import torch
import torch.cuda.graphs

from graphsafe.capture.answers.events import StepEvent
from graphsafe.capture.device.cuda import gpu_trace
from graphsafe.capture.shared.frames import frames_from, is_user_file, user_frames, user_frames_now
from graphsafe.capture.shared.replaced import replaced
from graphsafe.run.child.cuda.order import CudaOrder
from graphsafe.run.child.guilty import waiting
from graphsafe.run.child.refills import Stream
from graphsafe.run.child.waits import Waits


def current_stream() -> Stream:
    return key_of(int(torch._C._cuda_getCurrentRawStream(torch.cuda.current_device())))


def key_of(pointer: int) -> Stream:
    """Return a key for a stream. The key contains the stream's device, because the default streams of all devices have
    the same pointer."""
    return (0 if pointer else torch.cuda.current_device()), pointer


def _streams_watched(order: CudaOrder) -> AbstractContextManager[None]:
    def seen(note: Callable[[int, Stream], None], event: int, stream: int) -> None:
        if not torch.cuda.is_current_stream_capturing():
            order.look()
            note(event, key_of(stream))

    gpu_trace.register(
        event_record=partial(order.quietly, seen, order.refills.recorded),
        event_wait=partial(order.quietly, seen, lambda event, stream: order.refills.waited(stream, event)),
        event_deletion=partial(order.quietly, order.refills.forgotten),
    )
    waited, event, stream = order.refills.host_waited, torch.cuda.Event, torch.cuda.Stream
    hooks = [
        (event, "query", _asked(event.query, order, lambda one: waited(event=int(one.cuda_event)))),
        (stream, "query", _asked(stream.query, order, lambda one: waited(key_of(int(one.cuda_stream))))),
        (torch.cuda, "set_stream", _switching(torch.cuda.set_stream, order)),
    ]
    for _, _, hook in hooks:
        hook._torchdynamo_disable = True
    return replaced(*hooks)


def _asked(query: Any, order: CudaOrder, done: Callable[[Any], None]) -> Any:
    """Call `done` after a query that returned True, because a program may poll instead of waiting."""

    def waited(one: Any) -> None:
        order.look()
        done(one)

    def asked(self: Any) -> Any:
        answer = query(self)
        if answer:
            order.quietly(waited, self)
        return answer

    return asked


def _switching(set_stream: Any, order: CudaOrder) -> Any:
    def switching(stream: Any) -> None:
        capturing = torch.cuda.is_current_stream_capturing()
        if not capturing:
            order.quietly(order.look)
        set_stream(stream)
        if not capturing:
            order.quietly(order.switched)

    return switching


_STREAM = "cudaStreamSynchronize"
_known: dict[tuple[CodeType, int], StepEvent] = {}
"""Code object and instruction -> the event of the first wait there. A later wait at the same instruction counts as the
same event."""


@contextmanager
def watch_waits(waits: Waits, order: CudaOrder) -> Iterator[None]:
    """Report waits to `waits`, and calls that order streams to `order`."""
    inside = threading.local()

    def told(op: str, wait: Callable[[], None] | None, known: Callable[[], None]) -> None:
        """Record a wait, then call `known`, which records that the wait has ended."""
        if getattr(inside, "now", False) or torch.cuda.is_current_stream_capturing():
            return
        inside.now = True
        try:
            order.quietly(order.look)
            begun = time.perf_counter()
            if wait is not None:
                wait()
            milliseconds = None if wait is None else (time.perf_counter() - begun) * 1e3
            # Read the frames after stopping the clock. If they were read first, the queue could become empty meanwhile.
            if not _belongs_to_a_capture():
                waits.note(_event(op), milliseconds)
            order.quietly(known)
        finally:
            inside.now = False

    def stream(pointer: int) -> None:
        # The pointer 0 stands for the default stream. `ExternalStream(0)` would instead be a stream of PyTorch's own
        # pool.
        waited: Any = torch.cuda.ExternalStream(pointer) if pointer else torch.cuda.default_stream()  # type: ignore[no-untyped-call]
        told(_STREAM, waited.synchronize, lambda: order.refills.host_waited(key_of(pointer)))

    def device() -> None:
        told("torch.cuda.synchronize", torch.cuda.synchronize, order.refills.host_waited)

    def event(pointer: int) -> None:
        told("torch.cuda.Event.synchronize", None, lambda: order.refills.host_waited(event=pointer))

    gpu_trace.register(stream_synchronization=stream, device_synchronization=device, event_synchronization=event)
    with gpu_trace.traced(), _streams_watched(order):
        yield


def _event(op: str) -> StepEvent:
    frames, span = user_frames()
    running = user_frames_now(sys._getframe(1)) if op == _STREAM else []
    for frame in running[:1]:
        at = frame.f_code, frame.f_lasti
        if at not in _known:
            _known[at] = waiting(frame, frames, span, op)
        return replace(_known[at], frames=frames)
    return StepEvent("wait", op, frames, span)


def _belongs_to_a_capture() -> bool:
    """Return whether PyTorch itself waits, as `torch.cuda.graph` and `make_graphed_callables` do before a capture."""
    own = itertools.takewhile(lambda one: not is_user_file(one.f_code.co_filename), frames_from(sys._getframe(1)))
    return any(one.f_code.co_filename == torch.cuda.graphs.__file__ for one in own)
