"""`torch.cuda.CUDAGraph` and `torch.cuda.graph`: begin and end captures, and replay."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from typing import Any

import torch

from graphsafe.capture.answers.events import CaptureFailure, StepEvent
from graphsafe.capture.device.sim import world as worlds
from graphsafe.capture.device.sim.generators import Generator
from graphsafe.capture.device.sim.legality import EARLIER_ERROR, NOT_PERMITTED, UNJOINED
from graphsafe.capture.device.sim.nodes import Node, SimStream
from graphsafe.capture.device.sim.session import Session
from graphsafe.capture.device.sim.streams import Stream, StreamContext
from graphsafe.capture.device.structures import tensors_in
from graphsafe.capture.shared.collectives import is_collective
from graphsafe.capture.shared.frames import message_of, root_error, stack_level, traceback_frames
from graphsafe.capture.shared.places import at_line
from graphsafe.report.probes.construct import Attempt

__tracebackhide__ = True  # pytest reads this: the traceback of a failure ends at the user's line
_REPLAY_IN_CAPTURE = (
    "Cannot prepare for replay during capturing stage. during CUDA graph capture. If you need this call to be "
    "captured, please file an issue. Current cudaStreamCaptureStatus: cudaStreamCaptureStatusActive"
)
"The message of torch 2.11 on an H200 if a graph is replayed in the capture of another graph."


class CUDAGraph:
    """`torch.cuda.CUDAGraph`: the operations of a capture, with their order and the random numbers that they draw."""

    _handles = 0

    def __init__(self, keep_graph: bool = False) -> None:
        self.nodes: list[Node] = []
        self.draws: dict[Generator, int] = {}
        "How far one replay advances each generator."
        self.seeds: dict[Generator, int] = {}
        "The seeds at the capture."
        self.captured_in: Session | None = None
        """The session that captured the graph; None before the capture has succeeded. The tags of storages that the
        capture allocated refer to this session."""
        self.escaped: tuple[StepEvent, ...] = ()
        self.session: Session | None = None
        "The session of the capture that is under way."
        self.guilty: StepEvent | None = None
        self.doubts: list[str] = []
        self._registered: list[Generator] = []
        self._pool = graph_pool_handle()

    def register_generator_state(self, generator: Generator) -> None:
        self._registered.append(generator)

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global", **_: Any) -> None:
        world = worlds.current()
        sim_stream = world.current_sim_stream()
        if sim_stream.number == 0:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them "
                "on the default stream.)"
            )
        if world.session is not None:
            if sim_stream in world.session.clocks:
                world.refuse(NOT_PERMITTED, "torch.cuda.CUDAGraph.capture_begin", "wait")
            raise NOT_PERMITTED.error()
        if pool is not None:
            self._pool = pool
        self._generators = [*self._registered, world.generators[world.here.device]]
        for generator in self._generators:
            generator.state.capturing = True
            generator.state.drawn = 0
        self.session = world.session = Session(sim_stream)

    def capture_end(self) -> None:
        world = worlds.current()
        session = self.session
        if session is None or world.session is not session:
            raise RuntimeError("capture_end called before capture_begin")
        world.session = self.session = None
        with world.unseen():
            session.restore()
        self.guilty = session.first_event
        self.escaped = tuple(session.escaped)
        world.met(session.reuse.doubts)
        error = EARLIER_ERROR if session.first_error is not None else None
        loose = session.unjoined()
        if error is None and loose is not None and is_collective(loose.op):
            # CUDA does not require NCCL's own streams to be joined. If these streams are not joined, timing decides
            # whether the memory is reused before the collective ends.
            world.met([f"a collective that no stream waits for{at_line(loose.frames)}"])
        elif error is None and loose is not None:
            error, session.first_error, self.guilty = UNJOINED, UNJOINED, loose
        if world.attempts is not None:
            world.attempts(attempt_of(session, self.guilty, sys.exc_info()[1]))
        if error is not None:
            raise error.error()
        for generator in self._generators:
            generator.state.capturing = False
            self.draws[generator] = generator.state.drawn
            self.seeds[generator] = generator.state.seed
        self.nodes, session.nodes = session.nodes, []
        self.doubts = session.doubts
        self.captured_in = session
        world.graphs.add(self)
        if not self.nodes:
            warnings.warn(
                "The CUDA Graph is empty. This usually means that the graph was attempted to be captured on wrong "
                "device or stream.",
                stacklevel=stack_level(),
            )

    def replay(self) -> None:
        if self.captured_in is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        world = worlds.current()
        if world.session is not None and world.is_capturing():
            raise RuntimeError(_REPLAY_IN_CAPTURE)
        if world.stepping:
            world.met(self.doubts)
        if world.launched is not None and world.session is None:
            world.launched("graph", "torch.cuda.CUDAGraph.replay")
        with world.unseen():
            self._run()

    def _run(self) -> None:
        starts = {
            # If a graph does not advance a generator, its replays do not read the generator: they repeat the numbers of
            # the capture.
            generator: (generator.state.seed, generator.state.offset) if advance else (self.seeds[generator], 0)
            for generator, advance in self.draws.items()
        }
        # The nodes are operations below autocast: a replay casts nothing, even in a block of autocast.
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            for node in self.nodes:
                node.run(starts)
        for generator, advance in self.draws.items():
            generator.state.offset += advance

    def tensors(self) -> list[torch.Tensor]:
        """Return all tensors that the graph's operations read or write."""
        return [tensor for node in self.nodes for tensor in tensors_in([node.args, node.kwargs, node.outputs])]

    def kinds(self) -> dict[str, int]:
        return dict(Counter(node.kind for node in self.nodes))

    def reset(self) -> None:
        self.nodes = []
        self.captured_in = None

    def instantiate(self) -> None: ...

    def pool(self) -> tuple[int, int]:
        return self._pool

    def enable_debug_mode(self) -> None: ...

    def debug_dump(self, debug_path: str) -> None: ...


def attempt_of(session: Session, guilty: StepEvent | None, raised: BaseException | None) -> Attempt:
    error = raised if raised is not None or session.first_error is None else session.first_error.error()
    failure = None if error is None else failure_of(error, guilty)
    nodes = None if session.first_error is not None else len(session.nodes)
    return Attempt(f"sim:{session.origin.device_index}", nodes, failure, session.frames, session.span)


def failure_of(error: BaseException, guilty: StepEvent | None) -> CaptureFailure:
    """Describe a failure. The place is the line that caused it, even if the user's code swallowed the first error."""
    root, chain = root_error(error)
    frames, span = traceback_frames(root.__traceback__)
    if guilty is not None and not frames:
        frames, span = guilty.frames, guilty.span
    texts = tuple(dict.fromkeys(message_of(each) for each in chain))
    return CaptureFailure(message_of(root), texts, frames, span, guilty, type=type(root).__name__)


def graph_pool_handle() -> tuple[int, int]:
    CUDAGraph._handles += 1
    return 0, CUDAGraph._handles


class graph:
    """Replaces `torch.cuda.graph(...)`. As in PyTorch, the whole process has one default stream for captures, which
    belongs to the first device that captures. After a failed capture, the capture's stream stays current."""

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: Any = None,
        stream: Stream | None = None,
        capture_error_mode: str = "global",
        **_: Any,
    ) -> None:
        world = worlds.current()
        if stream is None:
            if world.capture_lane is None:
                world.capture_lane = SimStream(world.here.device)
            stream = Stream.of(world.capture_lane)
        self.capture_stream = stream
        self.stream_ctx = StreamContext(stream)
        self.cuda_graph = cuda_graph
        self.pool = pool
        self.capture_error_mode = capture_error_mode

    def __enter__(self) -> None:
        worlds.current().refuse(NOT_PERMITTED, "torch.cuda.graph", "wait")
        self.stream_ctx.__enter__()
        self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)

    def __exit__(self, *error: object) -> None:
        self.cuda_graph.capture_end()
        self.stream_ctx.__exit__(*error)
