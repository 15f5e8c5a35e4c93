"""The order of a graph's nodes: whether two of them race for the same memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from graphsafe.report.kernel_names import readable
from graphsafe.report.model import CallSite, Span
from graphsafe.report.probes.probe import PLACE, PLACE_OF, Probe, unreported
from graphsafe.report.text import count


@dataclass(frozen=True, slots=True)
class Race:
    """Two nodes that use the same memory and are not ordered by any path in the graph. At least one of them writes the
    memory."""

    op: str
    place: str | None = field(default=None, kw_only=True, metadata=PLACE)
    other_op: str
    "The operation of the node that was captured first."
    other_place: str | None = field(default=None, kw_only=True, metadata={PLACE_OF: "other_frames"})
    frames: tuple[CallSite, ...] = unreported(())
    span: Span | None = unreported()
    other_frames: tuple[CallSite, ...] = unreported(())


@dataclass(frozen=True, slots=True)
class Order(Probe):
    """The order of a graph's nodes, given by its edges.

    `fail`: some nodes race. `skipped`: the device does not show the order of the nodes, or does not show the memory
    that they use.
    """

    races: tuple[Race, ...] | None = None

    def text(self) -> str:
        if self.races is None:
            return ""
        if not self.races:
            return "no two nodes race for memory"
        first = self.races[0]
        more = f", and {count(len(self.races) - 1, 'more race')}" if len(self.races) > 1 else ""
        return f"{_node(first.op, first.place)} may run before {_node(first.other_op, first.other_place)} ends{more}"


def _node(op: str, place: str | None) -> str:
    return f"{readable(op)} at {place}" if place else readable(op)
