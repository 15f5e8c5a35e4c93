"""CUDA graphs and marks that the target has itself, and the faults found in them."""

from __future__ import annotations

from dataclasses import dataclass

from graphsafe.report.model import CallSite


@dataclass(frozen=True, slots=True)
class Missing:
    """A break that the target's marks lack."""

    code: str
    reason: str
    frames: tuple[CallSite, ...]


@dataclass(frozen=True, slots=True)
class Marks:
    """The target's marks, judged by a plan: missing breaks, and functions that are marked without need."""

    missing: tuple[Missing, ...] = ()
    needless: tuple[CallSite, ...] = ()


@dataclass(frozen=True, slots=True)
class Given:
    """Steps of the target with its own graphs, compared with the reference."""

    reason: str | None = None
    "Why their results differ from those of eager steps."
    different: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnGraphs:
    """The CUDA graphs of the target itself."""

    replays: tuple[tuple[CallSite, ...], ...] = ()
    "The calls at which the target replays graphs."
    compiled: bool = False
    "Whether the target's graphs are Inductor's, even if Inductor skipped them."
