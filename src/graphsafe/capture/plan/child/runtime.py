"""A step as captured segments with eager breaks between them. The step is captured in one pass, and its parts are
replayed in order.

Each segment is replayed right after its capture, so that the next break sees real values. For this reason, the pass
that captures is itself a step.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import torch

from graphsafe.capture.answers.events import CaptureFailure
from graphsafe.capture.child.probes.twin import uncollected
from graphsafe.capture.child.session import Session
from graphsafe.capture.device.protocol import Pieces, Recording
from graphsafe.capture.plan.child.call import BreakValues, Call
from graphsafe.capture.plan.child.rewrite import cut
from graphsafe.capture.plan.shared.regions import Region
from graphsafe.capture.shared.frames import traceback_frames, user_frames
from graphsafe.report.model import CallSite


class Elsewhere(Exception):
    """Raised if a break is reached inside of a backward pass. On a GPU, autograd runs backward passes on threads of its
    own, where no capture can end or begin. (The simulated device has no such threads, but it predicts for a device that
    has them.)"""


@dataclass
class Graph:
    recording: Recording
    nodes: int

    def replay(self) -> None:
        self.recording.replay()


class PlannedRecording:
    """A captured step, as segments and breaks."""

    def __init__(self, outputs: Any, items: Sequence[Graph | Call], pieces: Pieces) -> None:
        self.items = tuple(items)
        self._pieces = pieces
        calls = [item for item in items if isinstance(item, Call)]
        self._outputs = outputs
        self._giver = next((one for one in reversed(calls) if one.handed.returns and one.latest is outputs), None)
        """The break that returns the step's outputs, or None if no break does. The outputs of a break are new objects
        in each step."""

    @property
    def outputs(self) -> Any:
        return self._outputs if self._giver is None else self._giver.latest

    def replay(self) -> None:
        for item in self.items:
            item.replay()

    def settle(self) -> None:
        """Copy the current state to the memory that segments read. Call this after state was put back."""
        for item in self.items:
            if isinstance(item, Call):
                item.settle()

    def pool_bytes(self) -> int | None:
        first = next((item for item in self.items if isinstance(item, Graph)), None)
        return 0 if first is None else first.recording.pool_bytes()

    def release(self) -> None:
        for item in self.items:
            if isinstance(item, Graph):
                item.recording.release()
        self._outputs = self._giver = None


def record(
    session: Session, regions: Sequence[Region], handed: Sequence[BreakValues]
) -> PlannedRecording | CaptureFailure:
    """Capture a step in segments. This pass is a step itself. Raises GuardBroken, Elsewhere, and errors of breaks."""
    return _Pass(session, handed).run(regions)


def _caller_of_backward(frame: FrameType) -> FrameType:
    """Return the frame of the outermost call of autograd's engine around `frame`, or `frame` itself."""
    found, at = frame, frame
    while at.f_back is not None:
        if at.f_code.co_name == "_engine_run_backward":
            found = at
        at = at.f_back
    return found


class _Pass:
    def __init__(self, session: Session, handed: Sequence[BreakValues]) -> None:
        self._session = session
        self._handed = handed
        self._pieces = session.device.pieces()
        self._items: list[Graph | Call] = []
        self._depth = 0
        self._thread = threading.get_ident()
        self._failed: BaseException | None = None
        self._blamed: tuple[CallSite, ...] = ()

    def run(self, regions: Sequence[Region]) -> PlannedRecording | CaptureFailure:
        device = self._session.device
        outputs: Any = None
        # A garbage collection during a capture would free device memory in the middle of the capture.
        with device.capture_stream(), cut(regions, self._visit), uncollected():
            try:
                self._pieces.begin()
                outputs = self._session.subject()
                self._end()
            except Exception as error:
                return self._failure(self._failed or error)
        if self._failed is not None:  # the user's code swallowed the error
            return self._failure(self._failed)
        device.synchronize()
        return PlannedRecording(outputs, self._items, self._pieces)

    def _failure(self, error: BaseException) -> CaptureFailure:
        """Return the failure. If the error has no line of its own, the failure gets the line that the pass had
        reached."""
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
        if threading.get_ident() != self._thread or torch._C._current_graph_task_id() != -1:  # in a backward pass
            self._blamed, _ = user_frames(_caller_of_backward(sys._current_frames()[self._thread]))
            raise Elsewhere("a break inside of backward, which runs on autograd's own threads")
        call = Call(number, eager, outputs, self._handed[number], self._session, user_frames()[0])
        self._depth += 1
        try:
            self._end()
            result = call.run([item for item in self._items if isinstance(item, Call)])
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
