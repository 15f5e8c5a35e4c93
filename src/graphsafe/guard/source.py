"""The protocol of sources that report a thread's work; `on_cuda.py` and `on_sim.py` are the two sources."""

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
    "The user's lines in the order of their first launch, as far as they are known."


class Listener(Protocol):
    def wants(self, kind: StepEventKind) -> bool:
        """Return whether to make an event of this kind. The question saves time, because an event has to read the
        stack."""

    def told(self, event: StepEvent) -> None: ...


class Source(Protocol):
    evidence: Literal["measured", "predicted"]

    def watched(self, listener: Listener) -> AbstractContextManager[None]:
        """Report to `listener` the work of this thread, and the work of autograd's threads for it. Never raises, on any
        thread."""

    def launches_counted(self) -> AbstractContextManager[Callable[[], Launches]]:
        """Count the launches of this thread; the result is ready when the context has ended. Raises RequestError."""

    def unknown(self) -> tuple[str, ...]:
        """Return the operations since the watch began whose effects are not known: they may or may not wait."""
