"""The one protocol behind which CUDA and the simulated device stand; no probe names either.

An implementation lives in one child process, is entered once, and makes at most one capture attempt. Everything of the
user's (import, factory, steps) runs inside `entered()`; the probes' own reads and writes of tensors go through
`to_host`, `copied`, `store`, `poison` and `digests`, which are never seen by `watch`, by a recording or by the user's
modes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import torch

    from graphsafe.report.model import CallSite

StepEventKind = Literal[
    "read", "wait", "query", "copy-to-host", "copy-to-device", "extent", "allocation", "random", "hidden-sync"
]
Span = tuple[int, int, int, int]
"First line and column, last line and column after it; lines from 1, columns from 0 in UTF-8 bytes, as `ast` counts."


@dataclass(frozen=True, slots=True)
class StepEvent:
    """One thing that an eager step did, with the user's frames that did it, outermost first; the last is to blame.

    `graphsafe.capture.lines.frames.user_frames()` makes `frames` and `span` from the live stack.
    """

    kind: StepEventKind
    op: str
    "An aten name (`aten::_local_scalar_dense`) or a Python one (`torch.cuda.synchronize`)."
    frames: tuple[CallSite, ...]
    span: Span | None = None
    "The expression of the last frame that was running; `None` before Python 3.11."
    via: str | None = None
    """The outermost Python-level torch call around the event (`torch.Tensor.__bool__`, `torch.zeros`,
    `torch.Tensor.__getitem__`), as the op table spells it."""
    nbytes: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    """What tells rules apart: for copies `pinned`, `non_blocking`, `literal` and `index`; for extents `mask`; `dtype`;
    for random numbers `how`."""


@dataclass(frozen=True, slots=True)
class RandomState:
    seed: int
    offset: int


@dataclass(frozen=True, slots=True)
class CaptureFailure:
    """Why a capture attempt failed: the root of the exception chain, with the user's frames of that first error."""

    error_type: str
    message: str
    chain: tuple[str, ...]
    frames: tuple[CallSite, ...]
    span: Span | None = None
    event: StepEvent | None = None
    "What the guilty line did, where the device knows it without a second attempt."


@dataclass(frozen=True, slots=True)
class CaptureAttempt:
    """A capture that the user's own code began, in a constructor or in the step."""

    device: str
    frames: tuple[CallSite, ...]
    "Where it began."
    span: Span | None
    nodes: int | None
    failure: CaptureFailure | None
    "`None` where the capture ended well; one left open has a failure that says so."


@dataclass(frozen=True, slots=True)
class Asked:
    """Where the user's code asked whether a capture is under way."""

    frames: tuple[CallSite, ...]
    span: Span | None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The guilty line of a failed capture, found by an instrumented second attempt."""

    cause: Literal["operation", "unjoined-stream", "foreign-stream"]
    event: StepEvent


@dataclass(frozen=True, slots=True)
class Difference:
    """One way in which two recordings of a step are not the same graph: something that Python decides at capture."""

    node: int
    "Its number in the graph, from 0."
    what: Literal["count", "operation", "extent", "scalar", "address"]
    """`scalar`: a value among the arguments; `extent`: how much is launched or copied; `address`: memory outside the
    graph's own pool; `operation`: another kernel or kind of node; `count`: another number of nodes."""
    op: str
    "The kernel's or the operation's name."
    before: str
    after: str
    frames: tuple[CallSite, ...] = ()
    "The user's frames that launched the node; empty where they are not known."
    span: Span | None = None
    argument: int = 0
    "Which piece of the node's arguments, where they differ."


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes. `total` and `free` speak of the device, the others of this process."""

    total: int | None
    free: int | None
    allocated: int | None
    peak: int | None


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """A block of the device's memory that was taken, or given back."""

    block: int
    "Which one; after it was given back, the same number may mean another."
    nbytes: int
    "As many as were asked for; 0 where it is given back."
    place: CallSite | None = None
    "The user's line that took it; None where none was running, in autograd's threads for instance."
    private: bool = False
    "Whether it is of a graph's own pool."


@dataclass(frozen=True, slots=True)
class Kernels:
    """That one step launches."""

    total: int
    in_graphs: int
    "By graphs of the user's own, or of the compiler."


class NotComparable(RuntimeError):
    """The device does not tell what a recording holds, so two of them cannot be compared."""


class Recording(Protocol):
    """A captured step."""

    outputs: Any
    "What the captured call returned; replay writes into these tensors."

    def replay(self) -> None: ...

    def nodes(self) -> Mapping[str, int]:
        """Graph nodes by kind (`kernel`, `memcpy`, `memset`, `host`, ...); empty for an empty graph."""
        ...

    def pool_bytes(self) -> int | None: ...

    def differences(self, other: Recording) -> tuple[Difference, ...]:
        """Node by node, in what two recordings of one step are not the same graph: what Python froze. The places are
        those of `other`, which a traced recording knows. Empty where they are the same."""
        ...

    def opaque_nodes(self) -> int:
        """Nodes of which the driver does not tell what they were launched with."""
        ...

    def release(self) -> None:
        """Give the graph and its memory back."""
        ...

    def escaped(self) -> tuple[StepEvent, ...]:
        """Work of the step that is known to have run beside the capture, and is missing from the graph."""
        ...


class Pieces(Protocol):
    """Captures of one step, one after the other, into one pool; inside `capture_stream()`. Between `end` and the next
    `begin` the step runs eagerly. The pieces are replayed in the order in which they were captured."""

    def begin(self) -> None: ...

    def end(self) -> Recording:
        """Raises what ending the capture raises; the process may not capture again after that."""
        ...

    def failure(self, error: BaseException) -> CaptureFailure:
        """What `begin`, `end` or an operation between them raised; ends the piece that is open."""
        ...


class Device(Protocol):
    name: str
    "As the report says it: `cuda:1`, `sim:1`."
    torch_device: torch.device
    "What the factory receives: `cuda:1` for both."
    evidence: Literal["measured", "predicted"]
    collectives: Literal["nccl", "gloo"]
    "The backend that runs those of several ranks."

    def meet(self) -> None:
        """Wait on the device until all ranks are here. Needs a process group."""
        ...

    def entered(self) -> AbstractContextManager[None]:
        """Around everything that runs the user's code: makes the device current (cuda), installs the modes (sim)."""
        ...

    def label(self) -> str:
        """What the environment block says of it: `cuda:0 NVIDIA H200`, `sim:0`."""
        ...

    def driver(self) -> str | None: ...

    def seed(self, value: int) -> None:
        """Seed torch's default generators, host and device."""
        ...

    def random_states(self) -> Mapping[str, RandomState]:
        """Seed and offset of the default generator of this device and of every device with a live context."""
        ...

    def draw(self, device: str) -> str | None:
        """Draw one number on a device that `random_states` names and put the offset back; the error's text where the
        generator is broken, else None."""
        ...

    def repair_generator(self, device: str) -> None:
        """Put a fresh generator state with the old seed and offset in place of a broken one."""
        ...

    def capture_stream(self) -> AbstractContextManager[None]:
        """The explicit side stream of this device on which warm-up and capture run; joined both ways."""
        ...

    def stands_on(self) -> str:
        """The current device and stream, by symbolic name (`cuda:0, default stream`; `cuda:0, side stream`)."""
        ...

    def watch(self, sink: Callable[[StepEvent], None]) -> AbstractContextManager[None]:
        """Report what an eager step does to `sink`, one event each, without stopping the step."""
        ...

    def watch_captures(self, sink: Callable[[CaptureAttempt], None]) -> AbstractContextManager[None]:
        """Report each capture that the user's code makes to `sink` when it ends, with what ended it."""
        ...

    def watch_replays(self, sink: Callable[[tuple[CallSite, ...]], None]) -> AbstractContextManager[None]:
        """Report each replay of a graph that the user's code makes to `sink`, with the user's frames."""
        ...

    def watch_memory(self) -> AbstractContextManager[list[MemoryEvent]]:
        """What is allocated and freed inside, in order; the list is filled when it ends. The allocator does what it
        does without it."""
        ...

    def as_if_capturing(self, asked: Callable[[Asked], None]) -> AbstractContextManager[None]:
        """Code that asks whether a capture is under way is told yes; `asked` is told where. Nothing is captured."""
        ...

    def record(self, step: Callable[[], Any], traced: bool = False, pool: Any = None) -> Recording | CaptureFailure:
        """Capture on the capture stream: the plain, uninstrumented attempt. A process may record again only after a
        recording that succeeded. `traced`: every operation is watched, so that nodes know their lines. `pool`: where
        the graph's memory comes from, as `shared_pool` gave it; else a pool of its own."""
        ...

    def shared_pool(self) -> Any:
        """A pool that several recordings may use. What one frees the next may take, so they are replayed one at a
        time."""
        ...

    def pieces(self) -> Pieces:
        """For a step that is captured in segments."""
        ...

    def diagnose(self, step: Callable[[], Any]) -> Diagnosis | None:
        """The same attempt with every operation watched; in a process of its own, after `record` failed elsewhere."""
        ...

    def synchronize(self) -> None: ...

    def is_on_device(self, tensor: torch.Tensor) -> bool: ...

    def is_on_another(self, tensor: torch.Tensor) -> bool:
        """On another GPU than this one."""
        ...

    def to_host(self, tensor: torch.Tensor) -> torch.Tensor:
        """A plain detached host copy of the values, whatever device the tensor is on (or plays)."""
        ...

    def store(self, tensor: torch.Tensor, values: torch.Tensor) -> None:
        """Write `values` (same shape and dtype), of the host or from `copied`, into `tensor` in place."""
        ...

    def nudge(self, tensor: torch.Tensor, up: bool) -> None:
        """Move every finite number other than zero by one unit in the last place: neighbours in opposite directions,
        the first one away from zero if `up`. Nothing happens to integers and booleans."""
        ...

    def poison(self, tensor: torch.Tensor) -> None:
        """Fill with values that no step computes: NaN, or the dtype's extreme."""
        ...

    def digests(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, str]:
        """Hashes of their bytes, by path; equal bytes give equal digests in every process on this kind of device."""
        ...

    def copied(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy of the values where the tensor is, for `store`."""
        ...

    def churn(self) -> None:
        """Allocate and free blocks of many sizes filled with poison, so that memory freed too early shows."""
        ...

    def reuse_freed(self) -> None:
        """Have memory overwritten that nobody holds any more, also where a graph goes on using it. As `churn`, for a
        run that is not asked for its causes afterwards."""
        ...

    def memory(self) -> Memory: ...

    def time_ms(self, call: Callable[[], Any], repeats: int) -> float | None:
        """Milliseconds a call, on the device; `None` where a clock would say nothing (sim)."""
        ...

    def kernels(self, step: Callable[[], Any]) -> Kernels | None:
        """That one step launches; `None` where unknown."""
        ...

    def unknown_operations(self) -> tuple[str, ...]:
        """Operations that ran and that this device cannot vouch for; any of them makes a verdict inconclusive."""
        ...
