"""The lanes of a timeline. Each bar has a start and a length, in microseconds or, without times, in operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphsafe.report.model import Plan, Report, Segment
from graphsafe.report.probes import Probes
from graphsafe.report.probes.timeline import GAP_TEXTS, Gap, Operation, Timeline, ms_text
from graphsafe.report.text import bucket_name, count, device_name

LEGEND: Mapping[str, str] = {
    "launch": "launch",
    "graph-launch": "launch of a graph",
    "copy": "copy",
    "fill": "fill",
    "wait": "wait",
    "query": "query",
    "allocation": "allocation",
    "kernel": "kernel",
    "graph": "graph",
    "eager": "eager break",
    "gap-wait": "gap after a wait",
    "gap-allocation": "gap: memory allocated or freed",
    "gap-host": "gap: host busy",
    "gap-device": "gap: launched in time",
}
"""Kind of bar -> the name of this kind."""


@dataclass(frozen=True, slots=True)
class Bar:
    kind: str
    "One of the kinds in `LEGEND`."
    begin: float
    length: float
    text: str
    "A description in one line."
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lane:
    name: str
    bars: tuple[Bar, ...]
    in_time: bool = True
    "Whether the bars are measured in microseconds. If not, they are measured in operations."


@dataclass(frozen=True, slots=True)
class Picture:
    """The timeline of one device and bucket."""

    target: str
    place: str
    "The device and bucket: `cuda:0, batch=4`."
    lanes: tuple[Lane, ...]
    timeline: Timeline

    @property
    def title(self) -> str:
        """The title of the picture: `model.py:build on cuda:0, batch=4`."""
        return f"{self.target} on {self.place}"

    def length(self, in_time: bool) -> float:
        """Return the end of the last bar: of the lanes in microseconds if `in_time`, otherwise of the lanes in
        operations."""
        bars = (bar for lane in self.lanes if lane.in_time == in_time for bar in lane.bars)
        return max((bar.begin + bar.length for bar in bars), default=0.0)


def pictures(report: Report) -> list[Picture]:
    """Return the timelines of a report. A device or bucket without a timeline has a picture without lanes."""
    found = []
    for number, device in enumerate(report.devices or ()):
        for at, part in enumerate(device.parts):
            place = ", ".join(filter(None, (device_name(device), bucket_name(part.axes))))
            timeline = Probes.of(part.probes).timeline
            plan = report.plan if number == 0 and at == 0 else None
            found.append(Picture(report.called or "the step", place, tuple(_lanes(timeline, plan)), timeline))
    return found


def _lanes(timeline: Timeline, plan: Plan | None) -> Iterator[Lane]:
    if timeline.operations is None:
        return
    if not timeline.is_measured:
        yield Lane("host, in order", tuple(_in_order(timeline.operations)), in_time=False)
    else:
        yield Lane("host", tuple(_bar(one) for one in timeline.operations if one.lane == "host"))
        yield from _streams("GPU", timeline.operations)
        if timeline.gaps:
            yield Lane("gaps", tuple(map(_gap, timeline.gaps)))
        yield from _streams("one replay", timeline.replay or ())
        if timeline.busy_us is not None:
            text = f"the same work without gaps: {ms_text(timeline.busy_us)}"
            yield Lane("ideal", (Bar("kernel", 0.0, timeline.busy_us, text),))
    if plan is not None and plan.segments:
        yield _pieces(plan.segments)


def _streams(name: str, operations: Sequence[Operation]) -> Iterator[Lane]:
    work = [one for one in operations if one.lane == "device"]
    streams = sorted({one.stream for one in work}, key=lambda stream: (stream is None, stream or 0))
    for stream in streams:
        label = name if len(streams) == 1 or stream is None else f"{name}, stream {stream}"
        yield Lane(label, tuple(_bar(one) for one in work if one.stream == stream))


def _bar(one: Operation) -> Bar:
    begin, length = one.begin_us or 0.0, one.us or 0.0
    parts = [f"{LEGEND[one.kind]} {one.name}", *([f"at {one.place}"] if one.place else []), f"{length:.4g} µs"]
    if one.behind_us is not None:
        parts.append(f"{one.behind_us:.4g} µs of it while the device worked")
    if one.in_graph:
        parts.append("from a graph")
    data = {"line": one.place, "device at work (us)": one.behind_us, "stream": one.stream}
    return Bar("graph" if one.in_graph else one.kind, begin, length, ", ".join(parts), data)


def _gap(gap: Gap) -> Bar:
    text = f"{gap.us:.4g} µs without work: {GAP_TEXTS[gap.cause]}" + (f", at {gap.place}" if gap.place else "")
    return Bar(f"gap-{gap.cause}", gap.begin_us, gap.us, text, {"line": gap.place, "cause": gap.cause})


def _in_order(operations: Sequence[Operation]) -> Iterator[Bar]:
    at = 0.0
    for one in operations:
        times = f"{count(one.count, 'time')}, first " if one.count > 1 else ""
        text = f"{LEGEND[one.kind]} {times}{one.name}" + (f" at {one.place}" if one.place else "")
        yield Bar(one.kind, at, float(one.count), text, {"line": one.place, "count": one.count})
        at += one.count


def _pieces(segments: Sequence[Segment]) -> Lane:
    """Return the plan's graphs and breaks as a lane.

    Their lengths are their times or, if a piece has no time, their numbers of operations.
    """
    in_time = all(segment.ms is not None for segment in segments)
    bars, at = [], 0.0
    for segment in segments:
        length = (segment.ms or 0.0) * 1000 if in_time else float(segment.operations or segment.kernels or 1)
        place = segment.location
        where = f"at {place.path}:{place.line}" if place is not None else f"in {segment.module or 'the step'}"
        why = f": {segment.code} {segment.reason}" if segment.code or segment.reason else ""
        size = count(segment.operations, "operation") if segment.operations is not None else ""
        text = " ".join(part for part in (segment.kind, size, where) if part) + why
        bars.append(Bar(segment.kind, at, length, text, {"line": where, "reason": segment.reason}))
        at += length
    return Lane("plan", tuple(bars), in_time)
