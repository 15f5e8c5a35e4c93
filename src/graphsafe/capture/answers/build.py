"""Answers of the build child, other than the probe `construct`. These answers describe the target and its step, the
GPUs of this machine, and how a child ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from graphsafe.report.model import CallSite, Limit
from graphsafe.report.probes.probe import ProbeStatus


@dataclass(frozen=True, slots=True)
class Platform:
    """The versions of the software, and the device's name."""

    device: str | None = None
    driver: str | None = None
    torch: str | None = None
    cuda: str | None = None
    libraries: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Declaration:
    """The support for CUDA graphs that a class declares, if the step uses this class."""

    level: str | None
    "The declared level; None if the declaration is code that could not be called."
    words: str
    "The declaration as a string: `_cudagraph_support = ALWAYS of FlashBuilder`."
    path: str | None = None
    line: int | None = None
    exact: bool = True
    """Whether the declaration means that nothing above its level is supported. It is False for SGLang's methods: a
    class that implements them only declares that graphs for decoding are supported."""


@dataclass(frozen=True, slots=True)
class Built:
    """The step that the factory returned."""

    entry: CallSite | None = None
    "The function that a step calls."
    events: tuple[str, ...] = ()
    "Names of the target's events, which happen between replays."
    has_refresh: bool = False
    platform: Platform = field(default_factory=Platform)
    declared: Declaration | None = None


@dataclass(frozen=True, slots=True)
class Constructed:
    """The state after construction, as path -> digest."""

    digests: Mapping[str, str] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    "Path -> reason why the value cannot be read."


@dataclass(frozen=True, slots=True)
class Varied:
    """The inputs to which the trial could not give new values, although outputs may depend on them."""

    unvaried: tuple[str, ...] | None = None
    "The paths of these inputs; None if the trial of the inputs did not finish."
    unvaried_host: tuple[str, ...] | None = None
    "The unvaried inputs that are on the host. Python may branch on their values, and a graph freezes the branch."


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits that the report must list."""

    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True)
class BrokenBy:
    """The input whose new values broke the process."""

    path: str


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Memory in bytes. `total` and `free` describe the whole device, the other fields only this process."""

    total: int | None = None
    free: int | None = None
    allocated: int | None = None
    peak: int | None = None


@dataclass(frozen=True, slots=True)
class Devices:
    """The names of this machine's GPUs."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TargetFailure:
    """An error of the user's code in one of the stages. `line` describes the error in one line."""

    stage: Literal["import", "build", "step"]
    line: str
    calls: tuple[CallSite, ...] = ()
    "The calls that led to the error, outermost first."
    at: float = 0.0
    "The time of the error on the clock of `time.monotonic`, which is the same in every process."


Ending = Literal["done", "target", "state", "crashed", "timeout", "stopped", "fault"]
"""`done`: the child did all its work; `target`: the user's code raised an error; `state`: the target's state cannot be
put back; `crashed`: the child died; `timeout`: it took too long; `stopped`: another rank could not go on; `fault`:
graphsafe's own code failed."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child process ended. `why` is the reason in one line; it is empty if the child did all its work."""

    how: Ending
    why: str = ""
    at: CallSite | None = None
    "The line of the user's code in which the child died, if it is known."

    @property
    def by_itself(self) -> bool:
        """Whether the child reported its end itself. A child that died, or was killed, did not report its end."""
        return self.how in ("done", "target", "state")

    @property
    def status(self) -> ProbeStatus:
        """The status of the probe that was running when the child ended."""
        return self.how if self.how == "crashed" or self.how == "timeout" else "skipped"
