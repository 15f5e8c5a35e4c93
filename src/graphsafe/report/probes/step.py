"""Events of an eager step that a graph cannot hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from graphsafe.report.model import CallSite
from graphsafe.report.probes.probe import PLACE, Number, Probe, later, unreported
from graphsafe.report.text import count, listed


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the step, with the number of events of each kind there."""

    place: str
    kinds: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Left:
    """Something that Inductor runs without a CUDA graph."""

    part: bool
    """Whether this is one partition of a compiled graph whose other parts are in CUDA graphs, rather than a whole
    compiled graph."""
    reason: str
    place: str | None = field(default=None, kw_only=True, metadata=PLACE)
    frames: tuple[CallSite, ...] = unreported(())
    "The frames of the operation to blame; empty if Inductor does not report them."


@dataclass(frozen=True, slots=True)
class Compiled:
    """Inductor's use of CUDA graphs in a compiled step."""

    kernels: int | None
    from_graphs: int | None
    left: tuple[Left, ...]
    recorded_again: tuple[str, ...]
    "The reasons why an existing graph could not be replayed."
    sizes: tuple[str, ...]
    "The sizes for which new graphs were recorded."
    captures_after_warmup: int
    counters: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Step(Probe):
    ran: bool | None = None
    "Whether the eager step ran to its end."
    syncs: int | None = None
    copies: int | None = None
    allocations: int | None = None
    by_line: tuple[Line, ...] | None = None
    unknown_operations: tuple[str, ...] | None = None
    "Operations with effects that the device does not know; empty on CUDA."
    compiled: Compiled | None = later()

    def text(self) -> str:
        return listed([count(int(one.value), _ONE[one.name]) for one in self.numbers() if one.value is not None])

    def numbers(self) -> Sequence[Number]:
        counts = (("syncs", self.syncs), ("copies", self.copies), ("allocations", self.allocations))
        return [Number(name, value, "count") for name, value in counts]


_ONE = {"syncs": "sync", "copies": "copy", "allocations": "allocation"}
