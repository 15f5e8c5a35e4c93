"""The protocol of sources that report a thread's work; `on_cuda.py` and `on_sim.py` are the two sources."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Literal, Protocol

from graphsafe.capture.answers.events import StepEvent, StepEventKind


class Listener(Protocol):
    def wants(self, kind: StepEventKind) -> bool:
        """Return whether to make an event of this kind: reading the stack takes time."""

    def told(self, event: StepEvent) -> None: ...


class Source(Protocol):
    evidence: Literal["measured", "predicted"]

    def watched(self, listener: Listener) -> AbstractContextManager[None]:
        """Report to `listener` the work of this thread, and of autograd for it. Never raises, on any thread."""

    def launches_counted(self) -> AbstractContextManager[Callable[[], int]]:
        """Count the launches of this thread; the result is ready when the context has ended. Raises RequestError."""

    def unknown(self) -> tuple[str, ...]:
        """Return operations since the watch began that may or may not wait: their effects are not known."""
