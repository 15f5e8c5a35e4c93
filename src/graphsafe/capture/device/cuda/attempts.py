"""Watches captures that the user's own code makes, from beginning to end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from graphsafe.capture.answers.events import CaptureFailure
from graphsafe.capture.device.cuda.graph import failure_of
from graphsafe.capture.device.cuda.runtime import node_counts
from graphsafe.capture.shared.frames import user_frames
from graphsafe.capture.shared.replaced import replaced
from graphsafe.report.model import CallSite, Span
from graphsafe.report.probes.construct import Attempt


@contextmanager
def attempts_watched(sink: Callable[[Attempt], None]) -> Iterator[None]:
    """Watch the two methods of `CUDAGraph` that every kind of capture calls."""
    graph = torch.cuda.CUDAGraph
    begin, end = graph.capture_begin, graph.capture_end
    open_attempts: dict[int, tuple[str, tuple[CallSite, ...], Span | None]] = {}

    def capture_begin(self: Any, *args: Any, **kwargs: Any) -> Any:
        open_attempts[id(self)] = (f"cuda:{torch.cuda.current_device()}", *user_frames())
        return begin(self, *args, **kwargs)

    def capture_end(self: Any) -> Any:
        # In `__exit__` of torch.cuda.graph this is the error of its body; capture_end only repeats that the capture
        # failed.
        raised = sys.exc_info()[1]
        device, frames, span = open_attempts.pop(id(self), (f"cuda:{torch.cuda.current_device()}", *user_frames()))
        try:
            result = end(self)
        except BaseException as error:
            sink(Attempt(device, None, failure_of(raised or error), frames, span))
            raise
        failure = None if raised is None else failure_of(raised)
        sink(Attempt(device, _nodes(self), failure, frames, span))
        return result

    try:
        with replaced((graph, "capture_begin", capture_begin), (graph, "capture_end", capture_end)):
            yield
    finally:
        for device, frames, span in open_attempts.values():
            message = "the capture was begun and never ended"
            failure = CaptureFailure(message, (message,), frames, span, type="None")
            sink(Attempt(device, None, failure, frames, span))


def _nodes(graph: Any) -> int | None:
    try:
        return sum(node_counts(graph.raw_cuda_graph()).values())
    except RuntimeError:  # without keep_graph, torch has already destroyed the graph
        return None
