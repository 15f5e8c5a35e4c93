"""A capture under way (`Session`), its result (`CUDAGraph`), and its replay.

A graph holds the operations with their storages and Python values fixed. A GPU runs nothing during a capture; here the
operations are run, because the code needs shapes, and existing memory that they wrote is restored when the capture
ends.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

from graphsafe.capture.answers.events import CaptureFailure, StepEvent, StepEventKind
from graphsafe.capture.device.sim import generators
from graphsafe.capture.device.sim import world as worlds
from graphsafe.capture.device.sim.generators import Generator
from graphsafe.capture.device.sim.legality import EARLIER_ERROR, NOT_PERMITTED, UNJOINED, Refusal
from graphsafe.capture.device.sim.perform import perform
from graphsafe.capture.device.sim.reuse import Reuse
from graphsafe.capture.device.sim.streams import Stream, StreamContext
from graphsafe.capture.device.sim.tags import storages, tag_of
from graphsafe.capture.device.structures import is_valueless, tensors_in
from graphsafe.capture.shared.collectives import is_collective
from graphsafe.capture.shared.frames import message_of, root_error, stack_level, traceback_frames, user_frames
from graphsafe.capture.shared.places import shown
from graphsafe.report.model import CallSite, Span
from graphsafe.report.probes.construct import Attempt

__tracebackhide__ = True  # read by pytest: the traceback of a failure ends at the user's line


NodeKind = Literal["kernel", "memcpy", "none"]


@dataclass(frozen=True, slots=True)
class Draw:
    generator: Generator
    offset: int
    "The offset relative to the generator's offset at the start of the graph."


@dataclass(frozen=True, slots=True)
class Node:
    func: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    """The frozen arguments: numbers with their values at the capture, tensors as aliases that keep the addresses. An
    unpinned host tensor is a copy, since a GPU gets its value."""
    outputs: tuple[torch.Tensor, ...]
    "Detached aliases of the tensors that the operation returned at capture; a replay writes into them."
    op: str
    kind: NodeKind
    draw: Draw | None
    frames: tuple[CallSite, ...]
    span: Span | None
    written: tuple[torch.Tensor, ...] = ()
    "Detached aliases of the arguments that the operation writes."
    recorded: bool = False
    "Whether autograd recorded the operation."

    def arguments(self) -> tuple[torch.Tensor, ...]:
        """Return the tensors that it reads and writes."""
        return *tensors_in([self.args, dict(self.kwargs)]), *self.written

    def call(self) -> Any:
        return perform(self.func, self.args, self.kwargs)

    def run(self, starts: Mapping[Generator, tuple[int, int]]) -> None:
        """Run the node. `starts` are the seeds and offsets from which this replay draws."""
        if torch.Tag.inplace_view in self.func.tags:  # `squeeze_` and the like change the tensor's shape, but no memory
            return
        written = tensors_in([self.args, self.kwargs, self.outputs])
        inference = any(tensor.is_inference() for tensor in written)
        # Inference tensors may only be written in inference mode. Otherwise the mode stays as it is:
        # `inference_mode(False)` would turn gradients on.
        with torch.inference_mode() if inference else contextlib.nullcontext():
            if self.draw is None:
                results = self.call()
            else:
                seed, offset = starts[self.draw.generator]
                results = generators.draw(seed, offset + self.draw.offset, self.call)
            for recorded, new in zip(self.outputs, tensors_in(results), strict=False):
                if recorded.is_nested:  # nested tensors are already unknown effects: see dispatch_mode.py
                    continue
                if recorded.layout == torch.strided and recorded.data_ptr() == new.data_ptr():
                    continue
                if recorded.shape != new.shape:
                    was, now = recorded.shape, new.shape
                    raise RuntimeError(f"a replayed operation changed its output's shape: {was} to {now}")
                recorded.copy_(new)


@dataclass(frozen=True, slots=True)
class Placed:
    """A node in the order of streams and events: the node runs after the first `seen[stream]` nodes of each stream."""

    node: Node
    stream: Stream
    number: int
    "The number of the node among those of its stream, from 1."
    seen: Mapping[Stream, int]

    def is_before(self, later: Placed) -> bool:
        """Return whether every replay runs this node before `later`, which was recorded after it."""
        return later.seen.get(self.stream, 0) >= self.number


class Session:
    """An open capture."""

    def __init__(self, origin: Stream) -> None:
        self.origin = origin
        self.clocks: dict[Stream, dict[Stream, int]] = {origin: {origin: 0}}
        self.nodes: list[Node] = []
        self.placed: list[Placed] = []
        self.escaped: list[StepEvent] = []
        "Work that this process gave to its devices during the capture and that is missing from the graph."
        self.first_error: Refusal | None = None
        self.first_event: StepEvent | None = None
        self.last_work: dict[Stream, StepEvent] = {}
        self.saved: dict[int, tuple[Any, Any]] = {}
        self.reuse = Reuse()
        self.doubts: list[str] = []
        "Work with unknown effects that was captured before the first step."
        self.frames, self.span = user_frames()

    def refuse(self, refusal: Refusal, op: str, kind: StepEventKind, **data: Any) -> None:
        """Raise `refusal`; remember the first one, with its line."""
        if self.first_error is not None and refusal.invalidates:
            raise EARLIER_ERROR.error()
        if self.first_event is None:
            self.first_event = worlds.current().event(kind, op, **data)
        if refusal.invalidates:
            self.first_error = refusal
        raise refusal.error()

    def admit(self) -> None:
        """Raise if an earlier error has invalidated the capture."""
        if self.first_error is not None:
            raise EARLIER_ERROR.error()

    def join(self, stream: Stream, clock: Mapping[Stream, int]) -> None:
        self.admit()
        own = self.clocks.setdefault(stream, {stream: 0})
        for other, count in clock.items():
            own[other] = max(own.get(other, 0), count)

    def add(self, stream: Stream, node: Node) -> None:
        self.nodes.append(node)
        if stream != self.origin:
            self.last_work[stream] = StepEvent("hidden-sync", node.op, node.frames, node.span)
        clock = self.clocks[stream]
        self.placed.append(Placed(node, stream, clock[stream] + 1, dict(clock)))
        self.reuse.add(self.placed[-1])
        clock[stream] += 1

    def save(self, tensor: torch.Tensor) -> None:
        """Save the values of existing memory that this capture is about to write."""
        tag = tag_of(tensor)
        if (tag is not None and tag.session is self) or is_valueless(tensor):
            return
        for storage in storages(tensor):
            if storage._cdata not in self.saved:
                self.saved[storage._cdata] = (storage, storage.clone())

    def restore(self) -> None:
        for storage, values in self.saved.values():
            if storage.nbytes() == values.nbytes():
                storage.copy_(values)
        self.saved.clear()

    def unjoined(self) -> StepEvent | None:
        """Return the last work of a stream that the capture's first stream never waited for."""
        seen = self.clocks[self.origin]
        for stream, clock in self.clocks.items():
            if clock[stream] > seen.get(stream, 0):
                return self.last_work.get(stream)
        return None


class CUDAGraph:
    """`torch.cuda.CUDAGraph`."""

    _handles = 0

    def __init__(self, keep_graph: bool = False) -> None:
        self.nodes: list[Node] = []
        self.placed: list[Placed] = []
        "The order of the nodes, if more than one stream took part."
        self.escaped: tuple[StepEvent, ...] = ()
        self.draws: dict[Generator, int] = {}
        "How far one replay advances each generator."
        self.session: Session | None = None
        self.captured_in: Session | None = None
        "The session that captured the graph. Tags of storages that the capture allocated name it."
        self.guilty: StepEvent | None = None
        self.doubts: list[str] = []
        self._registered: list[Generator] = []
        self._seeds: dict[Generator, int] = {}
        self._pool = graph_pool_handle()
        self._captured = False

    def register_generator_state(self, generator: Generator) -> None:
        self._registered.append(generator)

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global", **_: Any) -> None:
        world = worlds.current()
        stream = world.stream()
        if stream.number == 0:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them "
                "on the default stream.)"
            )
        if world.session is not None:
            if stream in world.session.clocks:
                world.session.refuse(NOT_PERMITTED, "torch.cuda.CUDAGraph.capture_begin", "wait")
            raise NOT_PERMITTED.error()
        if pool is not None:
            self._pool = pool
        self._generators = [*self._registered, world.generators[world.device]]
        for generator in self._generators:
            generator.state.capturing = True
            generator.state.drawn = 0
        self.session = world.session = Session(stream)

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
            # CUDA lets NCCL's own streams stay unjoined. In that case, timing decides whether the memory is reused
            # before the collective has ended.
            where = f" at {shown(loose.frames[-1].path)}:{loose.frames[-1].line}" if loose.frames else ""
            world.met([f"a collective that no stream waits for{where}"])
        elif error is None and loose is not None:
            error, session.first_error, self.guilty = UNJOINED, UNJOINED, loose
        if world.attempts is not None:
            world.attempts(attempt_of(session, self.guilty, sys.exc_info()[1]))
        if error is not None:
            raise error.error()
        for generator in self._generators:
            generator.state.capturing = False
            self.draws[generator] = generator.state.drawn
            self._seeds[generator] = generator.state.seed
        self.nodes, session.nodes = session.nodes, []
        self.placed = session.placed if len(session.clocks) > 1 else []
        self.doubts = session.doubts
        self.captured_in = session
        self._captured = True
        world.graphs.add(self)
        if not self.kinds():
            warnings.warn(
                "The CUDA Graph is empty. This usually means that the graph was attempted to be captured on wrong "
                "device or stream.",
                stacklevel=stack_level(),
            )

    def replay(self) -> None:
        if not self._captured:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        world = worlds.current()
        if world.stepping:
            world.met(self.doubts)
        if world.launched is not None and world.session is None:
            world.launched("graph", "torch.cuda.CUDAGraph.replay")
        with world.unseen():
            self.run()
        if world.session is not None and world.is_capturing():
            world.session.nodes.extend(self.nodes)

    def run(self) -> None:
        starts = {
            # If a graph does not advance a generator, its replays do not read the generator either: it repeats the
            # numbers of its capture.
            generator: (generator.state.seed, generator.state.offset) if advance else (self._seeds[generator], 0)
            for generator, advance in self.draws.items()
        }
        with torch.no_grad():
            for node in self.nodes:
                node.run(starts)
        for generator, advance in self.draws.items():
            generator.state.offset += advance

    def tensors(self) -> list[torch.Tensor]:
        """Return all tensors that the graph's operations read and write."""
        return [tensor for node in self.nodes for tensor in tensors_in([node.args, node.kwargs, node.outputs])]

    def kinds(self) -> dict[str, int]:
        return dict(Counter(node.kind for node in self.nodes if node.kind != "none"))

    def reset(self) -> None:
        self.nodes, self.placed = [], []
        self.captured_in = None
        self._captured = False

    def instantiate(self) -> None: ...

    def pool(self) -> tuple[int, int]:
        return self._pool

    def enable_debug_mode(self) -> None: ...

    def debug_dump(self, debug_path: str) -> None: ...


def attempt_of(session: Session, guilty: StepEvent | None, raised: BaseException | None) -> Attempt:
    failure = None
    if raised is not None:
        failure = failure_of(raised, guilty)
    elif session.first_error is not None:
        failure = failure_of(session.first_error.error(), guilty)
    nodes = None if session.first_error is not None else sum(node.kind != "none" for node in session.nodes)
    return Attempt(f"sim:{session.origin.device_index}", nodes, failure, session.frames, session.span)


def failure_of(error: BaseException, guilty: StepEvent | None) -> CaptureFailure:
    """Return the description of a failure, at the guilty line even if the user's code swallowed the first error."""
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
    """Stands in for `torch.cuda.graph(...)`. As in PyTorch, one default stream serves the whole process and belongs to
    the first device that captures; and after a failed capture the process stays on the capture's stream."""

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
            if world.capture_stream is None:
                world.capture_stream = Stream()
            stream = world.capture_stream
        self.capture_stream = stream
        self.stream_ctx = StreamContext(stream)
        self.cuda_graph = cuda_graph
        self.pool = pool
        self.capture_error_mode = capture_error_mode

    def __enter__(self) -> None:
        world = worlds.current()
        if world.session is not None:
            world.session.refuse(NOT_PERMITTED, "torch.cuda.graph", "wait")
        self.stream_ctx.__enter__()
        self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)

    def __exit__(self, *error: object) -> None:
        self.cuda_graph.capture_end()
        self.stream_ctx.__exit__(*error)
