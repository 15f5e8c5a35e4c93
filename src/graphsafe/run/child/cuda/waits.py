"""Times lines that make the host wait for a GPU, and reports the order of their waits.

Just before PyTorch waits for a stream, graphsafe synchronises the stream and times this. PyTorch's own wait then
returns at once, so no wait is added.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any

import torch
import torch.cuda._gpu_trace as gpu_trace
import torch.cuda.graphs

from graphsafe.capture.answers.events import StepEvent
from graphsafe.capture.shared.frames import is_user_file, user_frames
from graphsafe.run.child.cuda.order import CudaOrder
from graphsafe.run.child.cuda.streams import key_of, watch_streams
from graphsafe.run.child.waits import Waits


def watch_waits(waits: Waits, order: CudaOrder) -> AbstractContextManager[None]:
    """Begin to report waits.

    PyTorch's trace stays on until the process ends; the returned context ends everything else.
    """
    inside = threading.local()

    def told(op: str, wait: Callable[[], None] | None, known: Callable[[], None]) -> None:
        """Note a wait, and what is `known` after it."""
        if getattr(inside, "now", False) or torch.cuda.is_current_stream_capturing():
            return
        inside.now = True
        try:
            order.quietly(order.look)
            begun = time.perf_counter()
            if wait is not None:
                wait()
            milliseconds = None if wait is None else (time.perf_counter() - begun) * 1e3
            # Frames are read after the clock has stopped: reading them first would let the queue drain.
            if not _belongs_to_a_capture():
                frames, span = user_frames()
                waits.note(StepEvent("wait", op, frames, span), milliseconds)
            order.quietly(known)
        finally:
            inside.now = False

    def stream(pointer: int) -> None:
        # From the default stream's pointer, 0, PyTorch would make an ExternalStream for a stream of its own pool.
        waited: Any = torch.cuda.ExternalStream(pointer) if pointer else torch.cuda.default_stream()  # type: ignore[no-untyped-call]
        told("cudaStreamSynchronize", waited.synchronize, lambda: order.refills.host_waited(key_of(pointer)))

    def device() -> None:
        told("torch.cuda.synchronize", torch.cuda.synchronize, order.refills.host_waited)

    def event(pointer: int) -> None:
        told("torch.cuda.Event.synchronize", None, lambda: order.refills.host_waited(event=pointer))

    torch._C._activate_gpu_trace()
    gpu_trace.register_callback_for_stream_synchronization(stream)
    gpu_trace.register_callback_for_device_synchronization(device)
    gpu_trace.register_callback_for_event_synchronization(event)
    return watch_streams(order)


def _belongs_to_a_capture() -> bool:
    """Return whether PyTorch itself waits: `torch.cuda.graph` and `make_graphed_callables` do so before a capture."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        if frame.f_code.co_filename == torch.cuda.graphs.__file__:
            return True
        frame = frame.f_back
    return False
