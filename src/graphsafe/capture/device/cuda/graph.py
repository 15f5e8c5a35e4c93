"""A captured CUDA graph, or the reason why a step could not be captured. Also watches the captures that the user's own
code makes."""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from graphsafe.capture.answers.events import CaptureFailure, StepEvent
from graphsafe.capture.device.cuda.nodes import GraphNode, Place, Segments, differences, graph_nodes
from graphsafe.capture.device.cuda.runtime import node_counts
from graphsafe.capture.device.protocol import Recording
from graphsafe.capture.shared.frames import message_of, root_error, traceback_frames, user_frames
from graphsafe.capture.shared.replaced import replaced
from graphsafe.report.model import CallSite, Span
from graphsafe.report.probes.construct import Attempt
from graphsafe.report.probes.twin import Difference


@contextmanager
def attempts_watched(sink: Callable[[Attempt], None]) -> Iterator[None]:
    """Report the captures of the user's code to `sink`, by watching the two methods of `CUDAGraph` that every capture
    calls."""
    graph = torch.cuda.CUDAGraph
    begin, end = graph.capture_begin, graph.capture_end
    open_attempts: dict[int, tuple[str, tuple[CallSite, ...], Span | None]] = {}

    def capture_begin(self: Any, *args: Any, **kwargs: Any) -> Any:
        open_attempts[id(self)] = (f"cuda:{torch.cuda.current_device()}", *user_frames())
        return begin(self, *args, **kwargs)

    def capture_end(self: Any) -> Any:
        # If torch.cuda.graph calls this method in its `__exit__`, `raised` is the error of the block. The error of
        # `capture_end` itself only says that the capture failed.
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
    except RuntimeError:  # without `keep_graph`, torch has already destroyed the graph
        return None


@dataclass(eq=False)
class CudaRecording:
    graph: torch.cuda.CUDAGraph
    outputs: Any
    places: Sequence[Place | None] = ()
    "For a traced recording: the user's line that launched each node."

    @property
    def raw(self) -> int:
        """The handle of the graph, a `cudaGraph_t`."""
        return int(self.graph.raw_cuda_graph())

    @functools.cached_property
    def _nodes(self) -> tuple[GraphNode, ...]:
        return graph_nodes(self.raw)

    def differences(self, other: Recording) -> tuple[Difference, ...]:
        """Return the differences between this and another recording. Raises NotComparable if the driver does not show
        the nodes."""
        assert isinstance(other, CudaRecording)
        # The nodes of a traced recording may differ from those of a plain one, because a dispatch mode changes the
        # launches of compiled code. The places of the traced recording may then belong to other nodes.
        pools = (tuple(self.graph.pool()), tuple(other.graph.pool()))
        return differences(self._nodes, other._nodes, pools, Segments.now(), other.places)

    def opaque_nodes(self) -> int:
        return sum(node.opaque for node in self._nodes)

    def release(self) -> None:
        self.graph.reset()
        self.outputs = None

    def replay(self) -> None:
        self.graph.replay()

    def nodes(self) -> Mapping[str, int]:
        return node_counts(self.raw)

    def pool_bytes(self) -> int | None:
        return Segments.now().size(tuple(self.graph.pool()))

    def escaped(self) -> tuple[StepEvent, ...]:
        """Return nothing: a plain capture cannot see work outside of the capture. `diagnose` finds such work."""
        return ()


class CudaPieces:
    """Captures of the parts of one step in one pool; see `graphsafe.capture.device.protocol.Pieces`."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()
        self._graph: torch.cuda.CUDAGraph | None = None
        self._ended: list[torch.cuda.CUDAGraph] = []
        """All graphs whose capture has ended, including empty ones. The graphs are kept alive because torch refuses a
        pool that no graph uses any more."""

    def begin(self) -> None:
        graph = torch.cuda.CUDAGraph(keep_graph=True)
        graph.capture_begin(pool=self._pool)
        self._graph = graph

    def end(self) -> CudaRecording:
        assert self._graph is not None
        graph, self._graph = self._graph, None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns about an empty graph, but a part of a step may be empty
            graph.capture_end()
        self._ended.append(graph)
        recording = CudaRecording(graph, None)
        if recording.nodes():
            graph.instantiate()
        return recording

    def failure(self, error: BaseException) -> CaptureFailure:
        failed = failure_of(error)
        with contextlib.suppress(RuntimeError):
            if self._graph is not None:
                self._graph.capture_end()
        return failed


def failure_of(error: BaseException) -> CaptureFailure:
    """Describe the first error of the chain. The last error, which reaches the user, hides the first one."""
    root, chain = root_error(error)
    frames, span = traceback_frames(root.__traceback__)
    texts = tuple(f"{type(link).__name__}: {first_line(link)}" for link in chain)
    return CaptureFailure(first_line(root), texts, frames, span, type=type(root).__name__)


def first_line(error: BaseException) -> str:
    return next((line.strip() for line in message_of(error).splitlines() if line.strip()), type(error).__name__)[:300]
