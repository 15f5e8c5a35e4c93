"""The one protocol behind which CUDA and the simulated device stand; no probe names either.

An implementation lives in one child process, is entered once, and makes at most one capture attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import torch

    from graphsafe.report.model import CallSite

StepEventKind = Literal["read", "wait", "query", "copy-to-host", "copy-to-device", "extent", "allocation", "random", "hidden-sync"]


@dataclass(frozen=True, slots=True)
class StepEvent:
    """One thing that an eager step did, with the user's frames that did it (outermost first; the last is the line to blame)."""

    kind: StepEventKind
    op: str
    "An aten name (`aten::_local_scalar_dense`) or a Python one (`torch.cuda.synchronize`)."
    frames: tuple[CallSite, ...]
    nbytes: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RandomState:
    seed: int
    offset: int


@dataclass(frozen=True, slots=True)
class CaptureFailure:
    """Why a capture attempt failed: the root of the exception chain first, with the user's frames of the first error."""

    error_type: str
    message: str
    chain: tuple[str, ...]
    frames: tuple[CallSite, ...]


class Recording(Protocol):
    """A captured step."""

    outputs: Any
    "What the captured call returned; replay writes into these tensors."

    def replay(self) -> None: ...

    def nodes(self) -> Mapping[str, int]:
        """Graph nodes by kind (`kernel`, `memcpy`, `memset`, `host`, ...); empty for an empty graph."""
        ...

    def pool_bytes(self) -> int | None: ...


class Device(Protocol):
    name: str
    "As the report says it: `cuda:1`, `sim:1`."
    torch_device: torch.device
    "What the factory receives: `cuda:1` for both."
    evidence: Literal["measured", "predicted"]

    def entered(self) -> AbstractContextManager[None]:
        """Around everything that runs the user's code: makes the device current (cuda), installs the modes (sim)."""
        ...

    def seed(self, value: int) -> None: ...

    def random_states(self) -> Mapping[str, RandomState]:
        """Seed and offset of the default generator of this device and of every device with a live context."""
        ...

    def draw(self) -> str | None:
        """Draw one number and put the offset back; the error's text where the generator is broken, else None."""
        ...

    def repair_generator(self) -> None:
        """Put a fresh generator state with the old seed and offset in place of a broken one."""
        ...

    def capture_stream(self) -> AbstractContextManager[None]:
        """The explicit side stream of this device on which warm-up and capture run."""
        ...

    def watch(self, sink: Callable[[StepEvent], None]) -> AbstractContextManager[None]:
        """Report what an eager step does to `sink`, one event each, without stopping the step."""
        ...

    def record(self, step: Callable[[], Any]) -> Recording | CaptureFailure:
        """The plain, uninstrumented attempt on `capture_stream`; one a process."""
        ...

    def synchronize(self) -> None: ...

    def is_on_device(self, tensor: torch.Tensor) -> bool: ...

    def unknown_operations(self) -> tuple[str, ...]:
        """Operations that ran and that this device cannot vouch for; any of them makes a verdict inconclusive."""
        ...
