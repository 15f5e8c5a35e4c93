"""The protocol of sources, which report a thread's work. The two sources are in `on_cuda.py` and `on_sim.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Literal, Protocol

from graphsafe.capture.answers.events import StepEvent, StepEventKind
from graphsafe.report.model import CallSite


@dataclass(frozen=True, slots=True)
class Launches:
    """The kernels and graphs that a thread launched."""

    count: int = 0
    by_line: Mapping[CallSite, int] = field(default_factory=dict)
    "The user's lines in the order of their first launch, if they are known."


class Listener(Protocol):
    def wants(self, kind: StepEventKind) -> bool:
        """Return whether an event of this kind should be made.

        This test saves time, because making an event reads the stack.
        """

    def told(self, event: StepEvent) -> None: ...


class Source(Protocol):
    evidence: Literal["measured", "predicted"]

    def watched(self, listener: Listener) -> AbstractContextManager[None]:
        """Report to `listener` the work of this thread and the work that autograd's threads do for it.

        Never raises an error on any thread.
        """

    def launches_counted(self) -> AbstractContextManager[Callable[[], Launches]]:
        """Count the launches of this thread. The result is complete when the context has ended. Raises RequestError."""

    def unknown(self) -> tuple[str, ...]:
        """Return the operations that ran since the watch began and whose effects are unknown. Each may have waited."""
