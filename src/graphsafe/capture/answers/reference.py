"""The answer of the reference child, beside the values that it hands over in files."""

from __future__ import annotations

from dataclasses import dataclass

from graphsafe.capture.answers.events import Asked
from graphsafe.report.probes.replay import Check


@dataclass(frozen=True, slots=True)
class Reference:
    """The eager steps of a build of its own."""

    varied: int | None = None
    "The number of steps in which changed inputs changed outputs or state."
    lazy: tuple[str, ...] = ()
    "State that step 1 fills in and that depends on the inputs of step 1."
    lazy_caches: tuple[str, ...] = ()
    asked: tuple[Asked, ...] = ()
    "Where the step asks whether a capture is under way."
    checks: tuple[Check, ...] = ()
    "The path that the step takes while it is captured, compared with the path that eager steps take."
    refused: str | None = None
    "Why the step cannot be run eagerly as if it were captured."
    host_counts: tuple[str, ...] = ()
    "Tensors of the state that only the host counts up, and that replays are not compared in."
    event_failed: str | None = None
    "The event that failed, or whose following eager step failed, and why."

    @property
    def differs(self) -> bool:
        """Whether the step computes something else while it is captured."""
        return any(check.result == "different" for check in self.checks)
