"""The device protocol on the simulated device."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from graphsafe.capture.answers.build import DeviceMemory
from graphsafe.capture.answers.events import Asked, CaptureFailure, Diagnosis, StepEvent
from graphsafe.capture.device.bits import bytes_digest, nudge, poison
from graphsafe.capture.device.modes import outside_modes
from graphsafe.capture.device.protocol import Device, Kernels, MemoryEvent, RandomState, Recording
from graphsafe.capture.device.sim import substitutes
from graphsafe.capture.device.sim.differences import differences
from graphsafe.capture.device.sim.dispatch_mode import SimDispatchMode
from graphsafe.capture.device.sim.function_mode import SimFunctionMode
from graphsafe.capture.device.sim.generators import Generator, State
from graphsafe.capture.device.sim.graph_memory import poison_freed, races_of
from graphsafe.capture.device.sim.graphs import CUDAGraph, attempt_of, failure_of, graph
from graphsafe.capture.device.sim.legality import UNCAPTURED_WORK, Refusal
from graphsafe.capture.device.sim.sequence import SequenceRecorder
from graphsafe.capture.device.sim.shapes import Shapes
from graphsafe.capture.device.sim.streams import Stream, StreamContext
from graphsafe.capture.device.sim.tags import HOST, index_of, is_pinned
from graphsafe.capture.device.sim.world import LAUNCHED, World
from graphsafe.capture.shared.replaced import replaced
from graphsafe.optable import OpTable
from graphsafe.report.model import Limit
from graphsafe.report.probes.construct import Attempt
from graphsafe.report.probes.order import Race
from graphsafe.report.probes.timeline import Timeline
from graphsafe.report.probes.twin import Difference


@dataclass(eq=False)
class SimRecording:
    outputs: Any
    graph: CUDAGraph
    world: World

    def replay(self) -> None:
        self.graph.replay()

    def nodes(self) -> Mapping[str, int]:
        return self.graph.kinds()

    def pool_bytes(self) -> int | None:
        """Return None: how the allocator reuses blocks within a graph's pool is not simulated."""
        return None

    def differences(self, other: Recording) -> tuple[Difference, ...]:
        assert isinstance(other, SimRecording)
        with self.world.unseen():
            return differences(self.graph, other.graph)

    def opaque_nodes(self) -> int:
        """Return zero: the simulated device knows every argument."""
        return 0

    def release(self) -> None:
        self.graph.reset()
        self.outputs = None

    def escaped(self) -> tuple[StepEvent, ...]:
        return self.graph.escaped


class SimPieces:
    """Captures of the parts of one step; see `graphsafe.capture.device.protocol.Pieces`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._graph: CUDAGraph | None = None

    def begin(self) -> None:
        self._graph = CUDAGraph()
        self._graph.capture_begin()

    def end(self) -> SimRecording:
        assert self._graph is not None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns about an empty graph, but a part of a step may be empty
            self._graph.capture_end()
        return SimRecording(None, self._graph, self._world)

    def failure(self, error: BaseException) -> CaptureFailure:
        if self._graph is None:
            return failure_of(error, None)
        with contextlib.suppress(RuntimeError):  # the part may have ended
            self.end()
        return failure_of(error, self._graph.guilty)


class SimDevice(Device):
    evidence: Literal["measured", "predicted"] = "predicted"
    collectives: Literal["nccl", "gloo"] = "gloo"

    def __init__(self, index: int, table: OpTable, count: int = 1, shapes: bool = False) -> None:
        """Make `count` devices, or more if `index` needs more. With `shapes`, the devices compute no values."""
        self.computes = not shapes
        self.name = f"sim:{index}"
        self.index = index
        self.torch_device = torch.device("cuda", index)
        self.world = World(max(index + 1, count), index, table)
        self.world.shapes = Shapes() if shapes else None
        with self.world.installed():
            self.side = Stream(index)

    @contextmanager
    def entered(self) -> Iterator[None]:
        with (
            self.world.installed(),
            substitutes.installed(self.world),
            SimFunctionMode(self.world),
            SimDispatchMode(self.world),
        ):
            yield

    def device_barrier(self) -> None:
        with self.world.unseen():
            torch.distributed.barrier()

    def limits(self) -> tuple[Limit, ...]:
        return tuple(Limit("simulated", what, why) for what, why in self.world.limits.items())

    def seed(self, value: int) -> None:
        torch.default_generator.manual_seed(value)
        for generator in self.world.generators:
            generator.manual_seed(value)
        if self.world.shapes is not None:
            self.world.shapes.begin()

    def random_states(self) -> Mapping[str, RandomState]:
        states = {index: self.world.generators[index].state for index in sorted(self.world.touched)}
        return {f"sim:{index}": RandomState(state.seed, state.offset) for index, state in states.items()}

    def draw(self, device: str) -> str | None:
        """Draw one number, as `torch.rand(1, device=...)` does on a stream that is not capturing."""
        try:
            self._generator(device).check(capturing=False)
        except RuntimeError as error:
            return str(error)
        return None

    def repair_generator(self, device: str) -> None:
        generator = self._generator(device)
        generator.state = State(generator.state.seed, generator.state.offset)

    def _generator(self, device: str) -> Generator:
        return self.world.generators[int(device.partition(":")[2])]

    @contextmanager
    def capture_stream(self) -> Iterator[None]:
        self.world.stepping = True
        with StreamContext(self.side):
            yield

    def current_stream_name(self) -> str:
        kind = "default stream" if self.world.current_sim_stream().number == 0 else "side stream"
        return f"sim:{self.world.here.device}, {kind}"

    def watch(self, sink: Callable[[StepEvent], None]) -> AbstractContextManager[None]:
        self.world.stepping = True
        return replaced((self.world, "sink", sink))

    @contextmanager
    def watch_captures(self, sink: Callable[[Attempt], None]) -> Iterator[None]:
        try:
            with replaced((self.world, "attempts", sink)):
                yield
        finally:
            session = self.world.session
            if session is not None:
                session.first_error = session.first_error or Refusal("the capture was begun and never ended")
                sink(attempt_of(session, session.first_event, None))

    @contextmanager
    def watch_memory(self) -> Iterator[list[MemoryEvent]]:
        """Note the memory of operations' results. Temporary memory of kernels and the allocator's rounding are not
        included."""
        found: list[MemoryEvent] = []
        with replaced((self.world.ledgers[self.index], "on_memory_event", found.append)):
            yield found

    def as_if_capturing(self, asked: Callable[[Asked], None]) -> AbstractContextManager[None]:
        return replaced((self.world, "asked", asked))

    def record(self, step: Callable[[], Any], traced: bool = False, pool: Any = None) -> SimRecording | CaptureFailure:
        """Record the step. `traced` changes nothing, because simulated nodes always know their lines."""
        self.world.stepping = True
        recorded = CUDAGraph()
        try:
            with replaced((self.world, "attempts", None)), graph(recorded, pool=pool, stream=self.side):
                outputs = step()
        except BaseException as error:
            return failure_of(error, recorded.guilty)
        return SimRecording(outputs, recorded, self.world)

    def races(self, recording: Recording, step: Callable[[], Any]) -> tuple[Race, ...]:
        """Return the races of a recording; the step is not captured again."""
        assert isinstance(recording, SimRecording)
        with outside_modes():
            return races_of(recording.graph)

    def pieces(self) -> SimPieces:
        self.world.stepping = True
        return SimPieces(self.world)

    def diagnose(self, step: Callable[[], Any]) -> Diagnosis | None:
        """Return the line at which a capture of `step` fails. The plain attempt already names the line, so no
        instruments are needed."""
        result = self.record(step)
        if not isinstance(result, CaptureFailure):
            return Diagnosis("foreign-stream", result.escaped()[0]) if result.escaped() else None
        if result.event is None:
            return None
        waits_for_work = UNCAPTURED_WORK.message in result.message and result.event.op != "torch.cuda.Stream.wait_event"
        unjoined = "unjoined" in result.message or waits_for_work
        return Diagnosis("unjoined-stream" if unjoined else "operation", result.event)

    def is_on_device(self, tensor: torch.Tensor) -> bool:
        with torch._C.DisableTorchFunction():
            return index_of(tensor) == self.index

    def is_on_other_gpu(self, tensor: torch.Tensor) -> bool:
        with torch._C.DisableTorchFunction():
            return index_of(tensor) not in (HOST, self.index)

    def is_pageable(self, tensor: torch.Tensor) -> bool:
        with torch._C.DisableTorchFunction():
            return index_of(tensor) == HOST and not is_pinned(tensor)

    def to_host(self, tensor: torch.Tensor) -> torch.Tensor:
        with self.world.unseen():
            return tensor.detach().clone()

    copied = to_host

    def store(self, tensor: torch.Tensor, values: torch.Tensor) -> None:
        with self.world.unseen():
            tensor.detach().copy_(values)

    def nudge(self, tensor: torch.Tensor, up: bool) -> None:
        with self.world.unseen():
            nudge(tensor, up)

    def poison(self, tensor: torch.Tensor) -> None:
        with self.world.unseen():
            poison(tensor)

    def digests(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, str]:
        with self.world.unseen():
            return {path: _digest(tensor) for path, tensor in tensors.items()}

    def reuse_freed(self) -> None:
        with self.world.unseen():
            poison_freed(self.world.graphs)

    def memory(self) -> DeviceMemory:
        ledger = self.world.ledgers[self.index]
        return DeviceMemory(total=None, free=None, allocated=ledger.allocated, peak=ledger.peak)

    def kernels(self, step: Callable[[], Any]) -> Kernels | None:
        """Return the number of kernels if only shapes are computed. If values are computed, return None: the number is
        then not needed."""
        if self.world.shapes is None:
            return None
        counted: list[str] = []
        with self.world.launches_reported(lambda kind, name: counted.append(kind)):
            step()
        return Kernels(sum(kind in LAUNCHED for kind in counted), 0)

    def trace(self, step: Callable[[], Any], folder: Path) -> Timeline:
        """Return the order of the work. The result has no times, because they would not be those of a GPU."""
        seen = SequenceRecorder()
        with self.watch(seen.record), self.world.launches_reported(seen.launched):
            step()
        return seen.timeline()

    def uncomputed_value_reads(self) -> int:
        return 0 if self.world.shapes is None else self.world.shapes.asked

    def with_made_up_values(self, answer: Literal[0, 1]) -> AbstractContextManager[None]:
        shapes = self.world.shapes
        return nullcontext() if shapes is None else replaced((shapes, "answer", answer))

    def unknown_operations(self) -> tuple[str, ...]:
        return tuple(self.world.unknown)


def _digest(tensor: torch.Tensor) -> str:
    """Hash a tensor. Call it with torch functions disabled."""
    plain = tensor.detach()
    if plain.is_meta:
        return "not computed"
    if plain.layout != torch.strided:
        plain = plain.to_dense()
    return bytes_digest(plain.contiguous().reshape(-1))
