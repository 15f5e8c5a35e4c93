"""Ends that a child reports itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from graphsafe.report.model import CallSite


@dataclass(frozen=True, slots=True)
class TargetFailure:
    """An error of the user's code.

    `line` describes the failure in one line; `stage` is the stage in which the target failed.
    """

    stage: Literal["import", "build", "step"]
    line: str
    calls: tuple[CallSite, ...] = ()
    "The calls that led to the error, outermost first."
    at: float = 0.0
    "The time of the error, by the clock that `time.monotonic` reads in every process."


@dataclass(frozen=True, slots=True)
class StateFailure:
    """`line` says which state of the target cannot be put back."""

    line: str


@dataclass(frozen=True, slots=True)
class Fault:
    """An error of graphsafe's own code, in one line."""

    line: str


@dataclass(frozen=True, slots=True)
class Done:
    """The child has told everything."""
