"""The protocol that CUDA and the simulated device implement. A probe uses only this protocol.

An implementation exists in one child process, is entered once, and makes at most one capture attempt that fails. All of
the user's code (import, factory, steps) runs inside `entered()`. The probes read and write tensors only with `to_host`,
`copied`, `store`, `poison` and `digests`; `watch`, recordings and the user's modes do not see these operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import torch

from graphsafe.capture.answers.build import DeviceMemory
from graphsafe.capture.answers.events import Asked, CaptureFailure, Diagnosis, StepEvent, StepEventKind
from graphsafe.capture.shared.replaced import replays_watched
from graphsafe.report.model import CallSite, Limit
from graphsafe.report.probes.construct import Attempt
from graphsafe.report.probes.order import Race
from graphsafe.report.probes.timeline import Timeline
from graphsafe.report.probes.twin import Difference

STOPS: Mapping[str, StepEventKind] = {
    "reads-host": "read",
    "branches": "read",
    "dynamic-shape": "extent",
    "hidden-sync": "hidden-sync",
    "waits": "wait",
}
"""Effects in the op table that stop a capture -> the kind of their event. The simulated device derives the effects
`random`, `allocates` and `copies` from the tags of tensors instead, except for calls that exist only in Python."""
RESEEDS = ("torch.manual_seed", "torch.cuda.manual_seed", "torch.cuda.manual_seed_all", "torch.cuda.set_rng_state")
"Functions that seed the default generators of devices."


@dataclass(frozen=True, slots=True)
class RandomState:
    seed: int
    offset: int


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """The allocation or the release of a block of device memory."""

    block: int
    "The block's number. After the release, the number may be used for another block."
    nbytes: int
    "The number of bytes that were requested; 0 for a release."
    place: CallSite | None = None
    "The user's line that allocated the block. None if no line of the user was running, as in autograd's threads."
    private: bool = False
    "Whether the block is in a graph's own pool."


@dataclass(frozen=True, slots=True)
class Kernels:
    """How many kernels one step launches."""

    total: int
    in_graphs: int
    "Kernels that were launched by graphs of the user or of the compiler."


class NotComparable(RuntimeError):
    """Raised if recordings cannot be compared because the device does not show their contents."""


class Replayable(Protocol):
    @property
    def outputs(self) -> Any:
        """The step's result. A replay writes into these tensors, or replaces them."""

    def replay(self) -> None: ...


class Recording(Replayable, Protocol):
    """A captured step."""

    def nodes(self) -> Mapping[str, int]:
        """Return the number of graph nodes of each kind (`kernel`, `memcpy`, `memset`, `host`, ...). The result is
        empty for an empty graph."""

    def pool_bytes(self) -> int | None: ...

    def differences(self, other: Recording) -> tuple[Difference, ...]:
        """Compare two recordings of one step node by node, and return the values that differ because each recording
        froze its own. The places come from `other`, if it is a traced recording. The result is empty if the graphs are
        the same."""

    def opaque_nodes(self) -> int:
        """Return the number of nodes whose arguments the driver does not show."""

    def release(self) -> None:
        """Free the graph and its memory."""

    def escaped(self) -> tuple[StepEvent, ...]:
        """Return the step's work that is known to have run outside of the capture. The graph lacks this work."""


class Pieces(Protocol):
    """Captures of parts of one step, one after another, into one pool, inside `capture_stream()`. Between `end` and the
    next `begin` the step runs eagerly. The parts are replayed in the order in which they were captured."""

    def begin(self) -> None: ...

    def end(self) -> Recording:
        """End the current part. Raises the error with which the capture of the part ended. After that error the process
        must not capture again."""

    def failure(self, error: BaseException) -> CaptureFailure:
        """Describe an error of `begin`, of `end`, or of an operation between them, and end the current part."""


class Device(Protocol):
    """One device. Methods with a body are defaults. Inside `entered()` of the simulated device, the functions of
    `torch.cuda` are simulated too."""

    name: str
    "The name in reports: `cuda:1` or `sim:1`."
    torch_device: torch.device
    "The device that the factory is given. This device is `cuda:1` for `sim:1` too."
    evidence: Literal["measured", "predicted"]
    computes: bool
    "Whether operations compute values. Without values a recording cannot be replayed."
    collectives: Literal["nccl", "gloo"]
    "The backend for collectives between ranks."

    def device_barrier(self) -> None:
        """Wait on the device until all ranks have called this method. Needs a process group."""

    def entered(self) -> AbstractContextManager[None]:
        """Enter the device before any of the user's code runs: make the GPU current, or install the modes of the
        simulated device."""

    def label(self) -> str:
        """Return the name for the report's environment: `cuda:0 NVIDIA H200`, `sim:0`."""
        return self.name

    def driver(self) -> str | None:
        return None

    def limits(self) -> tuple[Limit, ...]:
        """Return a limit for each feature that the target has used and that this device handles differently from a
        GPU."""
        return ()

    def seed(self, value: int) -> None:
        """Seed torch's default generators, on the host and on the device."""

    def random_states(self) -> Mapping[str, RandomState]:
        """Return seed and offset of the default generators of all devices with a live context."""

    def random_source(self) -> torch._C.Generator:
        """Return a generator that shares the current state of this device's default generator. Both generators share
        the state until the program replaces it (`graphsafe_set_state`)."""
        return torch.cuda.default_generators[self.torch_device.index].graphsafe_get_state()

    def draw(self, device: str) -> str | None:
        """Draw one number and put the offset back. Return the error's message if the generator is broken, else None."""

    def repair_generator(self, device: str) -> None:
        """Replace a broken generator state by a fresh state with the old seed and offset."""

    def capture_stream(self) -> AbstractContextManager[None]:
        """Enter the stream for warm-up and capture. At both ends of the block, this stream and the current stream wait
        for each other."""

    def current_stream_name(self) -> str:
        """Return the current device and stream, by symbolic name (`cuda:0, default stream` or `cuda:0, side
        stream`)."""

    def watch(self, sink: Callable[[StepEvent], None]) -> AbstractContextManager[None]:
        """Report each event of an eager step to `sink`, without stopping the step."""

    def watch_captures(self, sink: Callable[[Attempt], None]) -> AbstractContextManager[None]:
        """Report each capture that the user's code makes to `sink`, when it ends, with its error if it failed."""

    def watch_replays(self, sink: Callable[[tuple[CallSite, ...]], None]) -> AbstractContextManager[None]:
        """Call `sink` with the user's frames each time that the user's code replays a graph."""
        return replays_watched(torch.cuda.CUDAGraph, sink)

    def watch_memory(self) -> AbstractContextManager[list[MemoryEvent]]:
        """Yield a list. After the block, the list holds the allocations and releases in the block, in order. The
        allocator's behaviour does not change."""

    def as_if_capturing(self, asked: Callable[[Asked], None]) -> AbstractContextManager[None]:
        """In this block, code that asks whether a capture is under way gets the answer True, and `asked` is called with
        the place. Nothing is captured."""

    def record(self, step: Callable[[], Any], traced: bool = False, pool: Any = None) -> Recording | CaptureFailure:
        """Capture on the capture stream. Without `traced`, this is the plain attempt without instruments. A process may
        record again only after a recording that succeeded.

        With `traced`, every operation is watched, so that nodes know their lines. `pool` is a pool from `shared_pool`;
        without one, the graph gets its own pool.
        """

    def races(self, recording: Recording, step: Callable[[], Any]) -> tuple[Race, ...]:
        """Return the races in a recording of `step`. The step may be captured again for this, while its operations are
        watched. Raises NotComparable if the device does not show the order of nodes, or the memory that they use."""

    def shared_pool(self) -> Any:
        """Return a pool for several recordings. The recordings use the same memory, so they must be replayed one at a
        time."""
        return torch.cuda.graph_pool_handle()

    def pieces(self) -> Pieces:
        """Return a `Pieces` object, for a step that is captured in several parts."""

    def diagnose(self, step: Callable[[], Any]) -> Diagnosis | None:
        """Repeat a failed attempt, in a process of its own, while every operation is watched."""

    def synchronize(self) -> None:
        return

    def keep_busy(self) -> bool:
        """Keep the current stream busy for some milliseconds, and return True at once. Return False if the device
        cannot run behind the host."""
        return False

    def is_on_device(self, tensor: torch.Tensor) -> bool: ...

    def is_on_other_gpu(self, tensor: torch.Tensor) -> bool:
        """Return whether the tensor is on another GPU."""

    def is_pageable(self, tensor: torch.Tensor) -> bool:
        """Return whether only the host can write the tensor's memory: it is on the host and not pinned."""

    def to_host(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the values as a plain, detached tensor on the host, for a tensor on any device, real or simulated."""

    def store(self, tensor: torch.Tensor, values: torch.Tensor) -> None:
        """Copy `values` into `tensor` in place. `values` is a host tensor or a result of `copied`, with the same shape
        and dtype."""

    def nudge(self, tensor: torch.Tensor, up: bool) -> None:
        """Move every finite number other than zero by one unit in the last place. Neighbours move in opposite
        directions, and `up` decides the direction of the first. Integers and booleans stay as they are."""

    def poison(self, tensor: torch.Tensor) -> None:
        """Fill the tensor with values that no step computes: NaN, or the dtype's extreme value."""

    def digests(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, str]:
        """Return the hash of each tensor's bytes, by path. Equal bytes have the same hash in every process on this kind
        of device."""

    def copied(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy of the values on the tensor's own device, for `store`."""

    def churn(self) -> None:
        """Allocate blocks of many sizes, fill them with poison and free them, so that reads of freed memory change
        results. A device that never reuses the memory of graphs does nothing."""
        return

    def reuse_freed(self) -> None:
        """Overwrite free memory, even if a graph still uses it. This method finds more faults than `churn`, but it
        hides the cause of a difference. So this method is for runs whose differences are not explained afterwards."""

    def memory(self) -> DeviceMemory: ...

    def time_ms(self, call: Callable[[], Any]) -> float | None:
        """Return how many milliseconds a call takes on the device. Return `None` if the device has no clock (the
        simulated device)."""
        return None

    def kernels(self, step: Callable[[], Any]) -> Kernels | None:
        """Count the kernels that one step launches; `None` if the number is not known."""

    def trace(self, step: Callable[[], Any], folder: Path) -> Timeline:
        """Run a step, perhaps twice. Return the host's calls and the device's work in order, with times if the device
        has a clock. Files may be written to `folder`. The paths of lines are absolute."""

    def uncomputed_value_reads(self) -> int:
        """Return how often Python has asked for a value that was not computed."""
        return 0

    def with_made_up_values(self, answer: Literal[0, 1]) -> AbstractContextManager[None]:
        """In this block, Python gets a made-up value if it reads a value that was not computed. If `answer` is 1, the
        value is True, one, or all elements of a mask. If it is 0, the value is False, zero, or no element of a mask."""
        return nullcontext()

    def unknown_operations(self) -> tuple[str, ...]:
        """Return the operations that ran and whose effects are unknown. Even a single such operation makes the verdict
        inconclusive."""
        return ()
