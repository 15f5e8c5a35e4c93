"""Events of an eager step that cannot be part of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from graphsafe.report.model import CallSite
from graphsafe.report.probes.probe import PLACE, Number, Probe, later, unreported
from graphsafe.report.text import count, listed


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the step, with the number of events of each kind."""

    place: str
    kinds: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Left:
    """A whole compiled graph, or a part of one, that Inductor runs without a CUDA graph."""

    part: bool
    """Whether this is only one partition of a compiled graph. The other partitions are then in CUDA graphs."""
    reason: str
    place: str | None = field(default=None, kw_only=True, metadata=PLACE)
    frames: tuple[CallSite, ...] = unreported(())
    "The frames of the operation to blame. It is empty if Inductor does not report them."


@dataclass(frozen=True, slots=True)
class Compiled:
    """How Inductor uses CUDA graphs in a compiled step."""

    kernels: int | None
    from_graphs: int | None
    left: tuple[Left, ...]
    recorded_again: tuple[str, ...]
    "Why an existing graph could not be replayed."
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
    "Operations whose effects the device does not know. It is empty on CUDA."
    compiled: Compiled | None = later()

    def text(self) -> str:
        return listed([count(int(one.value), _ONE[one.name]) for one in self.numbers() if one.value is not None])

    def numbers(self) -> Sequence[Number]:
        counts = (("syncs", self.syncs), ("copies", self.copies), ("allocations", self.allocations))
        return [Number(name, value, "count") for name, value in counts]


_ONE = {"syncs": "sync", "copies": "copy", "allocations": "allocation"}
