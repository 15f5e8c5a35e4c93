"""Answers of the build child other than the probe `construct`: properties of the target and its step; the GPUs of this
machine; and how a child ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from graphsafe.report.model import CallSite, Limit
from graphsafe.report.probes.probe import ProbeStatus


@dataclass(frozen=True, slots=True)
class Platform:
    """Versions, and the device's name."""

    device: str | None = None
    driver: str | None = None
    torch: str | None = None
    cuda: str | None = None
    libraries: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Declaration:
    """The support for CUDA graphs that a class behind the step declares."""

    level: str | None
    "The level; None if the declaration is code that could not be called."
    words: str
    "The declaration as text: `_cudagraph_support = ALWAYS of FlashBuilder`."
    path: str | None = None
    line: int | None = None
    exact: bool = True
    """Whether the declaration rules out support beyond its level. SGLang's methods only say that graphs of decoding are
    supported."""


@dataclass(frozen=True, slots=True)
class Built:
    """The step that the factory returned."""

    entry: CallSite | None = None
    "The stepped function."
    events: tuple[str, ...] = ()
    "Names of the target's events between replays."
    has_refresh: bool = False
    platform: Platform = field(default_factory=Platform)
    declared: Declaration | None = None


@dataclass(frozen=True, slots=True)
class Constructed:
    """The state that construction left, by path."""

    digests: Mapping[str, str] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    "Why a value cannot be read."


@dataclass(frozen=True, slots=True)
class Varied:
    """The inputs that keep their values although outputs may depend on them."""

    unvaried: tuple[str, ...] | None = None
    "The paths of these inputs; None if they could not be determined."
    unvaried_host: tuple[str, ...] | None = None
    "The unvaried inputs on the host. Python may branch on their values, and a graph freezes the branch."


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for the report."""

    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True)
class BrokenBy:
    """The input whose new values broke the process."""

    path: str


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Numbers of bytes. `total` and `free` describe the whole device, the other fields only this process."""

    total: int | None = None
    free: int | None = None
    allocated: int | None = None
    peak: int | None = None


@dataclass(frozen=True, slots=True)
class Devices:
    """The names of the GPUs."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TargetFailure:
    """An error of the user's code in a stage; `line` describes it in one line."""

    stage: Literal["import", "build", "step"]
    line: str
    calls: tuple[CallSite, ...] = ()
    "The calls that led to the error, outermost first."
    at: float = 0.0
    "The time of the error, by the clock that `time.monotonic` reads in every process."


Ending = Literal["done", "target", "state", "crashed", "timeout", "stopped", "fault"]
"""`done`: it did all its work; `target`: the user's code raised an error; `state`: the target's state cannot be put
back; `crashed`: it died; `timeout`: it took too long; `stopped`: another rank could not go on; `fault`: graphsafe's own
code failed."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child process ended, with the reason in one line, which is empty if it did all its work."""

    how: Ending
    why: str = ""

    @property
    def by_itself(self) -> bool:
        """Whether the child itself reported its end, rather than died or was killed in the middle of its work."""
        return self.how in ("done", "target", "state")

    @property
    def status(self) -> ProbeStatus:
        """The status of a probe during which the child ended."""
        return self.how if self.how == "crashed" or self.how == "timeout" else "skipped"
