"""The protocol that CUDA and the simulated device implement; a probe uses only this protocol.

An implementation lives in one child process, is entered once, and makes at most one capture attempt. All of the user's
code (import, factory, steps) runs inside `entered()`; the probes' own reads and writes of tensors go through `to_host`,
`copied`, `store`, `poison` and `digests`, which are invisible to `watch`, to a recording and to the user's modes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import torch

from graphsafe.capture.answers.build import DeviceMemory
from graphsafe.capture.answers.events import Asked, CaptureFailure, Diagnosis, StepEvent, StepEventKind
from graphsafe.report.model import CallSite
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
"""Effects in the op table that stop a capture. The simulated device's tags show `random`, `allocates` and `copies`,
except for calls that exist only in Python."""


@dataclass(frozen=True, slots=True)
class RandomState:
    seed: int
    offset: int


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """The allocation or release of a block of the device's memory."""

    block: int
    "The block's number, which may be used again after its release."
    nbytes: int
    "The bytes that were asked for; 0 for a release."
    place: CallSite | None = None
    "The user's line that allocated the block; None if no line of the user was running, as in autograd's threads."
    private: bool = False
    "Whether the block belongs to a graph's own pool."


@dataclass(frozen=True, slots=True)
class Kernels:
    """Numbers of kernels that one step launches."""

    total: int
    in_graphs: int
    "Kernels launched by graphs of the user or of the compiler."


class NotComparable(RuntimeError):
    """Raised if the device does not show the contents of a recording, so that recordings cannot be compared."""


class Replayable(Protocol):
    @property
    def outputs(self) -> Any:
        """The result of the step; a replay writes into these tensors, or replaces them."""

    def replay(self) -> None: ...


class Recording(Replayable, Protocol):
    """A captured step."""

    def nodes(self) -> Mapping[str, int]:
        """Return graph nodes by kind (`kernel`, `memcpy`, `memset`, `host`, ...); empty for an empty graph."""

    def pool_bytes(self) -> int | None: ...

    def differences(self, other: Recording) -> tuple[Difference, ...]:
        """Compare two recordings of one step node by node, and return the values that Python froze differently. The
        places come from `other`, if it is a traced recording. The result is empty if the recordings are the same
        graph."""

    def opaque_nodes(self) -> int:
        """Return the number of nodes whose arguments the driver does not show."""

    def release(self) -> None:
        """Free the graph and its memory."""

    def escaped(self) -> tuple[StepEvent, ...]:
        """Return work of the step that is known to have run outside the capture. This work is missing from the
        graph."""


class Pieces(Protocol):
    """Captures of one step, one after the other, into one pool; inside `capture_stream()`. Between `end` and the next
    `begin` the step runs eagerly. The pieces are replayed in the order in which they were captured."""

    def begin(self) -> None: ...

    def end(self) -> Recording:
        """End the piece. Raises the error with which the capture ended; after such an error the process may not capture
        again."""

    def failure(self, error: BaseException) -> CaptureFailure:
        """Describe an error of `begin`, of `end`, or of an operation between them, and end the open piece."""


class Device(Protocol):
    name: str
    "The name in reports: `cuda:1`, `sim:1`."
    torch_device: torch.device
    "The device that the factory receives: `cuda:1` for both."
    evidence: Literal["measured", "predicted"]
    computes: bool
    "Whether operations compute values. Without values a recording cannot be replayed."
    collectives: Literal["nccl", "gloo"]
    "The backend for collectives of several ranks."

    def meet(self) -> None:
        """Wait on the device until all ranks have reached this call. Needs a process group."""

    def entered(self) -> AbstractContextManager[None]:
        """Enter the device before any of the user's code runs: make the device current, or install the modes (sim)."""

    def label(self) -> str:
        """Return the name in the environment block: `cuda:0 NVIDIA H200`, `sim:0`."""

    def driver(self) -> str | None: ...

    def seed(self, value: int) -> None:
        """Seed torch's default generators, host and device."""

    def random_states(self) -> Mapping[str, RandomState]:
        """Return seed and offset of the default generators of all devices with a live context."""

    def random_source(self) -> torch._C.Generator:
        """Return a generator that shares the present state of this device's default generator, until a program replaces
        that state (`graphsafe_set_state`)."""

    def draw(self, device: str) -> str | None:
        """Draw one number and put the offset back; return the error's text if the generator is broken, else None."""

    def repair_generator(self, device: str) -> None:
        """Put a fresh generator state with the old seed and offset in place of a broken state."""

    def capture_stream(self) -> AbstractContextManager[None]:
        """Enter the stream for warm-up and capture. The stream and the current stream wait for each other at both
        ends."""

    def stands_on(self) -> str:
        """Return the current device and stream, by symbolic name (`cuda:0, default stream`; `cuda:0, side stream`)."""

    def watch(self, sink: Callable[[StepEvent], None]) -> AbstractContextManager[None]:
        """Report to `sink` each event of an eager step, without stopping the step."""

    def watch_captures(self, sink: Callable[[Attempt], None]) -> AbstractContextManager[None]:
        """Report to `sink` each capture by the user's code, when it ends, with the error that ended it."""

    def watch_replays(self, sink: Callable[[tuple[CallSite, ...]], None]) -> AbstractContextManager[None]:
        """Report to `sink` each replay of a graph by the user's code, with the user's frames."""

    def watch_memory(self) -> AbstractContextManager[list[MemoryEvent]]:
        """Yield a list that, when the context ends, holds the allocations and releases inside it, in order. The
        allocator's behaviour does not change."""

    def as_if_capturing(self, asked: Callable[[Asked], None]) -> AbstractContextManager[None]:
        """Answer True to code that asks whether a capture is under way, and report the place. Nothing is captured."""

    def record(self, step: Callable[[], Any], traced: bool = False, pool: Any = None) -> Recording | CaptureFailure:
        """Capture on the capture stream: the plain, uninstrumented attempt. A process may record again only after a
        recording that succeeded.

        With `traced`, every operation is watched, so that nodes know their lines. `pool` is a pool from `shared_pool`;
        without one the graph gets its own.
        """

    def races(self, recording: Recording, step: Callable[[], Any]) -> tuple[Race, ...]:
        """Return the races in a recording of `step`. To find them, the step may be captured again while its operations
        are watched. Raises NotComparable if the device does not show the order of nodes or the memory that they use."""

    def shared_pool(self) -> Any:
        """Return a pool for several recordings, to be replayed one at a time: they use the same memory."""

    def pieces(self) -> Pieces:
        """Return a `Pieces` object, for a step that is captured in segments."""

    def diagnose(self, step: Callable[[], Any]) -> Diagnosis | None:
        """Repeat, in another process, an attempt that failed, and watch every operation."""

    def synchronize(self) -> None: ...

    def fall_behind(self) -> bool:
        """Keep the current stream busy for some milliseconds, and return at once; False if the device has no time of
        its own."""

    def is_on_device(self, tensor: torch.Tensor) -> bool: ...

    def is_on_another(self, tensor: torch.Tensor) -> bool:
        """Return whether the tensor is on another GPU."""

    def is_pageable(self, tensor: torch.Tensor) -> bool:
        """Return whether the tensor is in memory that only the host can write: on the host and not pinned."""

    def to_host(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a plain detached host copy of the values, whatever device the tensor is on or represents."""

    def store(self, tensor: torch.Tensor, values: torch.Tensor) -> None:
        """Copy a host tensor or a result of `copied`, of the same shape and dtype, into `tensor` in place."""

    def nudge(self, tensor: torch.Tensor, up: bool) -> None:
        """Move every finite number other than zero by one unit in the last place: neighbours in opposite directions,
        the first one away from zero if `up`. Nothing happens to integers and booleans."""

    def poison(self, tensor: torch.Tensor) -> None:
        """Fill the tensor with values that no step computes: NaN, or the extreme of the dtype."""

    def digests(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, str]:
        """Return the hash of each tensor's bytes, by path, the same in every process on this kind of device."""

    def copied(self, tensor: torch.Tensor) -> torch.Tensor:
        """Copy the values on the tensor's own device, for `store`."""

    def churn(self) -> None:
        """Allocate and free blocks of many sizes filled with poison: reads of freed memory then show."""

    def reuse_freed(self) -> None:
        """Overwrite free memory, even if a graph still uses this memory. This is stronger than `churn`, but hides the
        cause of a difference: use it only in runs whose differences are not explained afterwards."""

    def memory(self) -> DeviceMemory: ...

    def time_ms(self, call: Callable[[], Any]) -> float | None:
        """Return the milliseconds of a call, on the device; `None` if a clock would mean nothing (sim)."""

    def kernels(self, step: Callable[[], Any]) -> Kernels | None:
        """Count the kernels that one step launches; `None` if unknown."""

    def trace(self, step: Callable[[], Any], folder: Path) -> Timeline:
        """Run a step, perhaps twice, and return the host's calls and the device's work in order, with times if the
        device has a clock. Files may be written to `folder`. Lines are absolute paths."""

    def values_asked(self) -> int:
        """Return how often Python asked for a value that was not computed."""

    def answering(self, answer: Literal[0, 1]) -> AbstractContextManager[None]:
        """Inside this context, answer with a made-up value if Python reads a value that was not computed. The answer 1
        stands for True, one and all elements of a mask; 0 stands for False, zero and no element of a mask."""

    def unknown_operations(self) -> tuple[str, ...]:
        """Return the operations that ran with unknown effects; a single one makes the verdict inconclusive."""
