"""Several captures of the step, some steps apart, compared with each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from graphsafe.report.kernel_names import readable
from graphsafe.report.model import CallSite, Span
from graphsafe.report.probes.probe import PLACE, Error, Probe, error_text, later, unreported
from graphsafe.report.text import count


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between two captures. It comes from a decision that Python makes during a capture."""

    node: int
    "The number of the node in the graph, from 0."
    what: Literal["count", "operation", "extent", "scalar", "address"]
    """`scalar`: a value among the arguments. `extent`: how much is launched or copied. `address`: memory outside the
    graph's own pool. `operation`: another kernel or kind of node. `count`: another number of nodes."""
    op: str
    before: str
    after: str
    place: str | None = field(default=None, kw_only=True, metadata=PLACE)
    frames: tuple[CallSite, ...] = unreported(())
    span: Span | None = unreported()
    argument: int = unreported(0)
    "The number of the argument that differs, among the node's arguments."


@dataclass(frozen=True, slots=True)
class Cause:
    """A change of state that makes two captures differ."""

    kind: Literal["attribute", "tensor", "length", "input"]
    "`input`: a tensor that the target's refresh replaces by another tensor."
    path: str
    before: str | None
    after: str | None
    """The value after the change. For a tensor that was swapped with other tensors: the path under which its memory was
    found before."""
    frames: tuple[CallSite, ...] = ()
    "The calls that led to the change, if they are known."


@dataclass(frozen=True, slots=True)
class Twin(Probe):
    """`fail`: the graphs differ, or the step could not be captured again.

    In this case, Python does not make the same decisions at each capture, and a replay keeps the decisions of its
    capture. `skipped` with a `first_error`: the step could not be captured again, and it then failed without a capture
    too. It may have used up its room, such as the rows of a cache.
    """

    captures: int | None = None
    agree: bool | None = None
    "Whether the graphs are the same, node by node, as far as the driver shows the nodes."
    differences: tuple[Difference, ...] | None = None
    causes: tuple[str, ...] | None = later()
    "The paths of the state that causes the differences."
    elsewhere: str | None = later()
    "The place of the cause, if the cause is not a change of state."
    first_error: Error | None = later()
    "The error of a second capture."
    changes: tuple[Cause, ...] = unreported(())
    "The causes, with the values before and after."

    @property
    def explains(self) -> bool:
        """Whether the difference explains wrong replays.

        If only addresses differ and no cause is known, it is False: work outside the graph may have caused such a
        difference.
        """
        return self.status == "fail" and bool(
            self.causes or any(one.what != "address" for one in self.differences or ())
        )

    def text(self) -> str:
        if self.first_error is not None or not self.captures:
            return error_text(self.first_error)
        if self.status == "fail" and self.differences:
            first = self.differences[0]
            place = f" at {first.place}" if first.place else ""
            before, after = readable(first.before), readable(first.after)
            return f"a later capture differs: {readable(first.op)}{place}, {before} then {after}"
        return f"{count(self.captures, 'capture')} are the same graph" if self.agree else "no difference has an effect"
