"""The real device: one CUDA GPU of this machine, used by one child process."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch.profiler import ProfilerActivity

from graphsafe.capture.answers.build import DeviceMemory
from graphsafe.capture.answers.events import Asked, CaptureFailure, Diagnosis
from graphsafe.capture.device.bits import nudge
from graphsafe.capture.device.cuda import memory
from graphsafe.capture.device.cuda.compiler_import import profiling
from graphsafe.capture.device.cuda.diagnose import diagnosed
from graphsafe.capture.device.cuda.graph import CudaPieces, CudaRecording, attempts_watched, failure_of
from graphsafe.capture.device.cuda.hashing import digests
from graphsafe.capture.device.cuda.memory import allocations_watched
from graphsafe.capture.device.cuda.order import MemoryTouched, is_chain, races_of
from graphsafe.capture.device.cuda.runtime import driver_version
from graphsafe.capture.device.cuda.trace import NodePlaces
from graphsafe.capture.device.cuda.watch import step_watched
from graphsafe.capture.device.protocol import Device, Kernels, MemoryEvent, NotComparable, RandomState, Recording
from graphsafe.capture.shared.frames import user_frames
from graphsafe.capture.shared.replaced import replaced
from graphsafe.report.probes.order import Race
from graphsafe.report.probes.timeline import Timeline

_BUSY_CYCLES = 30_000_000
"Clock cycles for which `keep_busy` occupies the GPU: about 20 ms on an H100, longer than a refresh takes on the host."


class CudaDevice(Device):
    evidence: Literal["measured", "predicted"] = "measured"
    computes = True
    collectives: Literal["nccl", "gloo"] = "nccl"
    driver = staticmethod(driver_version)
    watch = staticmethod(step_watched)
    watch_captures = staticmethod(attempts_watched)
    pieces = CudaPieces
    store = staticmethod(memory.store)
    nudge = staticmethod(nudge)
    poison = staticmethod(memory.poison)
    digests = staticmethod(digests)

    def __init__(self, index: int) -> None:
        """Open a GPU. Raises RuntimeError if this machine has no such GPU."""
        count = torch.cuda.device_count()
        if index >= count:
            raise RuntimeError(f"this machine has {count or 'no'} CUDA device{'s' if count > 1 else ''}")
        self.index = index
        self.name = f"cuda:{index}"
        self.torch_device = torch.device("cuda", index)

    @contextmanager
    def entered(self) -> Iterator[None]:
        torch.cuda.set_device(self.index)
        torch.empty(1, device=self.torch_device)
        yield

    def device_barrier(self) -> None:
        torch.distributed.all_reduce(torch.zeros(1, device=self.torch_device))
        self.synchronize()

    def label(self) -> str:
        major, minor = torch.cuda.get_device_capability(self.index)
        return f"{self.name} {torch.cuda.get_device_name(self.index)} (capability {major}.{minor})"

    def seed(self, value: int) -> None:
        torch.manual_seed(value)

    def random_states(self) -> Mapping[str, RandomState]:
        states = {}
        for index in range(torch.cuda.device_count()):
            if not torch._C._cuda_hasPrimaryContext(index):  # type: ignore[attr-defined]
                continue
            generator = torch.cuda.default_generators[index]
            try:
                states[f"cuda:{index}"] = RandomState(generator.initial_seed(), generator.get_offset())
            except RuntimeError:  # a capture was left open, so the generator's state cannot be read
                states[f"cuda:{index}"] = RandomState(0, 0)
        return states

    def draw(self, device: str) -> str | None:
        index = int(device.partition(":")[2])
        generator = torch.cuda.default_generators[index]
        try:
            offset = generator.get_offset()
            torch.empty(1, device=device).uniform_()
            torch.cuda.synchronize(index)
            generator.set_offset(offset)
        except RuntimeError as error:
            return " ".join(str(error).split())[:300]
        return None

    def repair_generator(self, device: str) -> None:
        generator = torch.cuda.default_generators[int(device.partition(":")[2])]
        fresh = torch.Generator(device=device)
        fresh.manual_seed(generator.initial_seed())
        fresh.set_offset(generator.get_offset())
        generator.graphsafe_set_state(fresh)

    @contextmanager
    def capture_stream(self) -> Iterator[None]:
        stream = self._side_stream
        outer = torch.cuda.current_stream(self.index)
        stream.wait_stream(outer)
        with torch.cuda.stream(stream):
            yield
        outer.wait_stream(stream)

    @functools.cached_property
    def _side_stream(self) -> torch.cuda.Stream:
        return torch.cuda.Stream(self.torch_device)  # type: ignore[no-untyped-call]

    def current_stream_name(self) -> str:
        index = torch.cuda.current_device()
        default = torch.cuda.current_stream(index) == torch.cuda.default_stream(index)
        return f"cuda:{index}, {'default' if default else 'side'} stream"

    def watch_memory(self) -> AbstractContextManager[list[MemoryEvent]]:
        return allocations_watched(self.index)

    def as_if_capturing(self, asked: Callable[[Asked], None]) -> AbstractContextManager[None]:
        def answer() -> bool:
            frames, span = user_frames()
            if frames:
                asked(Asked(frames, span))
            return True

        # `torch.cuda.is_current_stream_capturing` looks up this name when it is called. So code that imported that
        # function earlier gets this answer too.
        return replaced((torch.cuda.graphs, "_cuda_isCurrentStreamCapturing", answer))

    def record(self, step: Callable[[], Any], traced: bool = False, pool: Any = None) -> Recording | CaptureFailure:
        graph = torch.cuda.CUDAGraph(keep_graph=True)
        places = NodePlaces(self._side_stream) if traced else None
        try:
            with torch.cuda.graph(graph, pool=pool, stream=self._side_stream):
                outputs = step() if places is None else places.watch(step)
            graph.instantiate()
        except BaseException as error:
            return failure_of(error)
        return CudaRecording(graph, outputs, places.places if places is not None else ())

    def races(self, recording: Recording, step: Callable[[], Any]) -> tuple[Race, ...]:
        """Return the races in a recording. If its graph has branches, the step is captured again while its operations
        are watched. Raises NotComparable."""
        assert isinstance(recording, CudaRecording)
        if is_chain(recording.raw):
            return ()
        graph = torch.cuda.CUDAGraph(keep_graph=True)
        touched = MemoryTouched(self._side_stream)
        try:
            with torch.cuda.graph(graph, stream=self._side_stream), touched:
                step()
        except BaseException as error:
            raise NotComparable(f"the step cannot be captured under watch: {error}") from error
        try:
            return races_of(graph.raw_cuda_graph(), touched)
        finally:
            graph.reset()

    def diagnose(self, step: Callable[[], Any]) -> Diagnosis | None:
        return diagnosed(step, self._side_stream)

    def synchronize(self) -> None:
        torch.cuda.synchronize(self.index)

    def keep_busy(self) -> bool:
        torch.cuda._sleep(_BUSY_CYCLES)  # type: ignore[no-untyped-call]
        return True

    def is_on_device(self, tensor: torch.Tensor) -> bool:
        return tensor.device == self.torch_device

    def is_on_other_gpu(self, tensor: torch.Tensor) -> bool:
        return tensor.is_cuda and tensor.device != self.torch_device

    def is_pageable(self, tensor: torch.Tensor) -> bool:
        return tensor.device.type == "cpu" and not tensor.is_pinned()

    def to_host(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().cpu() if tensor.is_cuda else tensor.detach().clone()

    def copied(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().clone()

    def churn(self) -> None:
        memory.churn(self.torch_device, self._side_stream)

    def reuse_freed(self) -> None:
        memory.fill_freed(self.torch_device, self._side_stream)

    def memory(self) -> DeviceMemory:
        free, total = torch.cuda.mem_get_info(self.index)
        return DeviceMemory(
            total, free, torch.cuda.memory_allocated(self.index), torch.cuda.max_memory_allocated(self.index)
        )

    def time_ms(self, call: Callable[[], Any]) -> float | None:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        self.synchronize()
        begin.record()
        call()
        end.record()
        self.synchronize()
        return float(begin.elapsed_time(end))

    def kernels(self, step: Callable[[], Any]) -> Kernels:
        with profiling([ProfilerActivity.CUDA]) as profiler:
            step()
            self.synchronize()
        results: Any = profiler.profiler
        events = results.kineto_results.events()
        launched = {
            event.correlation_id() for event in events if event.name().startswith(("cudaGraphLaunch", "cuGraphLaunch"))
        }
        kernels = [
            event
            for event in events
            if event.device_type().name == "CUDA" and not event.name().startswith(("Memcpy", "Memset", "gpu_"))
        ]
        return Kernels(len(kernels), sum(event.correlation_id() in launched for event in kernels))

    def trace(self, step: Callable[[], Any], folder: Path) -> Timeline:
        from graphsafe.capture.device.cuda.profiles import profiled_timeline

        return profiled_timeline(step, self.synchronize, folder)
