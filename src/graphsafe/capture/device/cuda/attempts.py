"""Captures that the user's own code makes, seen where they begin and where they end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from graphsafe.capture.device.cuda.graph import failure_of
from graphsafe.capture.device.cuda.runtime import node_counts
from graphsafe.capture.device.protocol import CaptureAttempt, CaptureFailure, Span
from graphsafe.capture.lines.frames import user_frames
from graphsafe.report.model import CallSite


@contextmanager
def attempts_watched(sink: Callable[[CaptureAttempt], None]) -> Iterator[None]:
    """`torch.cuda.graph` and everything built on it call these two methods."""
    graph = torch.cuda.CUDAGraph
    begin, end = graph.capture_begin, graph.capture_end
    open_attempts: dict[int, tuple[str, tuple[CallSite, ...], Span | None]] = {}

    def capture_begin(self: Any, *args: Any, **kwargs: Any) -> Any:
        open_attempts[id(self)] = (f"cuda:{torch.cuda.current_device()}", *user_frames())
        return begin(self, *args, **kwargs)

    def capture_end(self: Any) -> Any:
        # In `__exit__` of torch.cuda.graph this is what the body raised; capture_end only repeats that it failed.
        raised = sys.exc_info()[1]
        device, frames, span = open_attempts.pop(id(self), (f"cuda:{torch.cuda.current_device()}", *user_frames()))
        try:
            result = end(self)
        except BaseException as error:
            sink(CaptureAttempt(device, frames, span, None, failure_of(raised or error)))
            raise
        failure = None if raised is None else failure_of(raised)
        sink(CaptureAttempt(device, frames, span, _nodes(self), failure))
        return result

    graph.capture_begin, graph.capture_end = capture_begin, capture_end  # type: ignore[method-assign]
    try:
        yield
    finally:
        graph.capture_begin, graph.capture_end = begin, end  # type: ignore[method-assign]
        for device, frames, span in open_attempts.values():
            message = "the capture was begun and never ended"
            sink(CaptureAttempt(device, frames, span, None, CaptureFailure("None", message, (message,), frames, span)))


def _nodes(graph: Any) -> int | None:
    try:
        return sum(node_counts(graph.raw_cuda_graph()).values())
    except RuntimeError:  # without keep_graph there is nothing left to count
        return None
