"""The step in time: the host's calls, the device's work, and why the device is idle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from graphsafe.report.model import grouped
from graphsafe.report.probes.probe import ABSOLUTE, Number, Probe, Table
from graphsafe.report.text import count, listed

Lane = Literal["host", "device"]
OperationKind = Literal["launch", "graph-launch", "copy", "fill", "wait", "query", "allocation", "kernel"]
GapCause = Literal["wait", "allocation", "host", "device"]

GAP_TEXTS: dict[GapCause, str] = {
    "wait": "the host waited before it launched the next work",
    "allocation": "the host allocated or freed device memory",
    "host": "the host was busy before the launch",
    "device": "the next work was launched in time, but started late",
}
_MOST_ROWS = 40


@dataclass(frozen=True, slots=True)
class Operation:
    """A call of the host, or a piece of work of the device. Times are in microseconds from the beginning of the
    step."""

    lane: Lane
    kind: OperationKind
    name: str
    place: str | None = field(metadata=ABSOLUTE)
    "The line of the user's code that was running, such as `cache.py:41`."
    begin_us: float | None
    us: float | None
    stream: int | None
    behind_us: float | None
    "For a wait: how long the device worked during it."
    in_graph: bool
    "Whether the work comes from the launch of a graph."
    count: int
    "The number of equal operations in a row. Without times, these share one entry."


@dataclass(frozen=True, slots=True)
class Gap:
    """A period, between two pieces of work, in which no stream of the device worked."""

    cause: GapCause
    place: str | None = field(metadata=ABSOLUTE)
    "The line that waited, or the line that launched the next work."
    begin_us: float
    us: float


@dataclass(frozen=True, slots=True)
class Timeline(Probe):
    """The step in time, and one replay of its graph."""

    step_us: float | None = None
    "The time from the step's first line to the end of its last work."
    busy_us: float | None = None
    "How long the device works in the step. Without gaps, the step would take this long."
    operations: tuple[Operation, ...] | None = None
    "The operations in the order in which they begin."
    gaps: tuple[Gap, ...] | None = None
    replay_us: float | None = None
    "The time from the beginning of a replay's first work to the end of its last."
    replay: tuple[Operation, ...] | None = None
    left_out: int | None = None

    @property
    def is_measured(self) -> bool:
        """Whether the operations have times. If not, only their order is known."""
        return self.step_us is not None

    def of_kind(self, *kinds: OperationKind) -> list[Operation]:
        """Return the operations of these kinds."""
        return [one for one in self.operations or () if one.kind in kinds]

    def _counted(self, kind: OperationKind) -> str:
        number = sum(one.count for one in self.of_kind(kind))
        noun = f"{number} launches" if kind == "launch" and number > 1 else count(number, kind)
        return noun if number else ""

    def text(self) -> str:
        """Return how the step's time is spent. Without times, return the numbers of launches, copies and waits."""
        if self.operations is None:
            return ""
        if self.step_us is None or self.busy_us is None:
            parts = [text for text in (self._counted("launch"), self._counted("copy"), self._counted("wait")) if text]
            return f"{listed(parts) or 'no launch'}, in order; their times are not measured"
        idle = max(self.step_us - self.busy_us, 0.0)
        parts = [f"of {ms_text(self.step_us)} the device works {ms_text(self.busy_us)}", f"idles {ms_text(idle)}"]
        if self.replay_us is not None:
            parts.append(f"a replay takes {ms_text(self.replay_us)}")
        return ", ".join(parts)

    def tables(self) -> Sequence[Table]:
        tables = []
        if self.gaps:
            rows = [(ms_text(us), str(number), cause, place) for cause, place, us, number in gaps_by_line(self.gaps)]
            tables.append(Table("Gaps of the device, by cause and line", [("in all", "times", "cause", "line"), *rows]))
        waits = self.of_kind("wait")
        if waits:
            head = ("line", "call", "times", "the host waited", "device at work")
            tables.append(Table("Waits, by line", [head, *waits_by_line(waits)[:_MOST_ROWS]]))
        return tables

    def numbers(self) -> Sequence[Number]:
        if self.step_us is None or self.busy_us is None:
            return [Number("idle device in a step", None, "ms")]
        return [Number("idle device in a step", max(self.step_us - self.busy_us, 0.0) / 1000, "ms")]


def gaps_by_line(gaps: Sequence[Gap]) -> list[tuple[str, str, float, int]]:
    """Group the gaps by cause and line. Return each group with its cause, its line, its total time and its number of
    gaps, the longest group first."""
    found = grouped(gaps, lambda gap: (gap.cause, gap.place or "not known"))
    rows = [(GAP_TEXTS[cause], place, sum(one.us for one in same), len(same)) for (cause, place), same in found.items()]
    return sorted(rows, key=lambda row: (-row[2], row[1], row[0]))[:_MOST_ROWS]


def waits_by_line(waits: Sequence[Operation]) -> list[tuple[str, ...]]:
    """Group the waits by line and call.

    For each group, the longest first, return the line, the call, the number of waits, their total time, and how long
    the device worked during them.
    """
    rows = []
    for (place, name), same in grouped(waits, lambda wait: (wait.place or "not known", wait.name)).items():
        us, behind = (_sum([getattr(one, key) for one in same]) for key in ("us", "behind_us"))
        rows.append((us or 0.0, (place, name, str(sum(one.count for one in same)), _time(us), _time(behind))))
    return [row for _, row in sorted(rows, key=lambda row: (-row[0], row[1]))]


def ms_text(us: float) -> str:
    """Return a time as text: `0.42 ms`."""
    return f"{us / 1000:.3g} ms"


def _sum(times: Sequence[float | None]) -> float | None:
    known = [time for time in times if time is not None]
    return sum(known) if known else None


def _time(us: float | None) -> str:
    return "not measured" if us is None else ms_text(us)
