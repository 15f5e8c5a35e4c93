"""Finds the line that made a capture fail: repeats the attempt and reads the stream's status after every operation.

The status changes from capturing to invalidated at that operation, even if the user's code swallowed the exception.
If the operation is a swallowed query, or a wait on the legacy stream, the change becomes visible only before the next
operation.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch

from graphsafe.capture.answers.events import Diagnosis, StepEvent
from graphsafe.capture.device.cuda.runtime import CAPTURING, INVALIDATED, NOT_CAPTURING, capture_status
from graphsafe.capture.device.cuda.trace import Running, traced
from graphsafe.capture.device.cuda.watch import waits_patched
from graphsafe.capture.shared.frames import message_of, root_error, traceback_frames, user_frames

_UNCAPTURED = "dependency created on uncaptured work in another stream"


class _Detective:
    """Keeps the last event that may be the cause. Once the capture is invalid, the cause is known and later events are
    ignored."""

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self.stream = stream
        self.running = Running(self.event)
        self.running.before_op = self.before_op
        self.running.after_op = lambda name, args: self.check()
        self.last: StepEvent | None = None
        self.guilty: Diagnosis | None = None
        self.on_side_stream = False
        "Whether the guilty operation ran on a stream other than the default stream."
        self.others: dict[int, tuple[torch.cuda.Stream, StepEvent]] = {}

    def event(self, event: StepEvent) -> None:
        if self.guilty is None and event.kind != "allocation":
            self.check()
            self.last = event

    def check(self) -> None:
        """If the capture has become invalid since the last check, record the last event as the cause."""
        if self.guilty is None and self.last is not None and capture_status(self.stream) == INVALIDATED:
            self.guilty = Diagnosis("operation", self.last)

    def before_op(self, name: str, args: Sequence[Any]) -> None:
        self.check()
        if self.guilty is not None:
            return
        frames, span = user_frames()
        self.last = event = StepEvent("hidden-sync", name, frames, span, self.running.via)
        here = torch.cuda.current_stream()
        if here.cuda_stream == self.stream.cuda_stream:
            return
        status = capture_status(here)
        if status == CAPTURING:
            self.others[here.cuda_stream] = (here, event)
        elif status == NOT_CAPTURING and any(isinstance(arg, torch.Tensor) and arg.is_cuda for arg in args):
            self.guilty = Diagnosis("foreign-stream", event)
            self.on_side_stream = here.cuda_stream != 0

    def unjoined(self) -> Diagnosis | None:
        for stream, event in self.others.values():
            if capture_status(stream) == CAPTURING:
                return Diagnosis("unjoined-stream", event)
        return None


def diagnosed(step: Callable[[], Any], stream: torch.cuda.Stream) -> Diagnosis | None:
    if "torch._dynamo" in sys.modules:
        # While the modes are active, compiled functions run uncompiled and may call libraries for the first time. The
        # set-up of a library would then be taken for the cause. So the step first runs once without a capture.
        with suppress(Exception), torch.cuda.stream(stream), traced(Running(lambda event: None)):
            step()
        torch.cuda.synchronize()
    found = _attempted(step, stream, "global")
    if found is None or found.cause != "foreign-stream":
        return found
    # In the global mode, an allocation on a stream that was not forked fails at once. The relaxed mode permits this
    # allocation. A later wait for this stream then shows that the stream is joined.
    relaxed = _attempted(step, stream, "relaxed")
    return relaxed if relaxed is not None and relaxed.cause == "unjoined-stream" else found


def _attempted(step: Callable[[], Any], stream: torch.cuda.Stream, mode: str) -> Diagnosis | None:
    """Return the cause that one watched capture shows, or None. `mode` is CUDA's mode of capture errors."""
    detective = _Detective(stream)
    graph = torch.cuda.CUDAGraph()
    unjoined: Diagnosis | None = None
    with suppress(Exception), torch.cuda.graph(graph, stream=stream, capture_error_mode=mode):
        try:
            with waits_patched(detective.running), traced(detective.running):
                try:
                    step()
                finally:
                    detective.check()
        except BaseException as error:
            if detective.guilty is None:
                detective.guilty = _raised(detective, error)
            elif detective.on_side_stream and _UNCAPTURED in message_of(root_error(error)[0]):
                detective.guilty = replace(detective.guilty, cause="unjoined-stream")  # joined, but never forked
            raise
        finally:
            unjoined = detective.unjoined()
    return detective.guilty or unjoined


def _raised(detective: _Detective, error: BaseException) -> Diagnosis | None:
    """Return the operation that one of PyTorch's own checks refused before CUDA saw it, or None."""
    root, _ = root_error(error)
    frames, span = traceback_frames(root.__traceback__)
    if not frames:
        return None
    last = detective.last
    if last is not None and last.frames and last.frames[-1] == frames[-1]:
        return Diagnosis("operation", last)
    return Diagnosis("operation", StepEvent("hidden-sync", "", frames, span, detective.running.via))
