"""Makes a timeline from a profiled step: reads the Chrome trace that `torch.profiler` exports. This needs neither torch
nor a GPU.

A trace is a list of events. The events that are read here have a begin (`ts`) and a duration (`dur`) in microseconds.
They are of these kinds:
- calls of the CUDA runtime and driver, on threads of the host
- work of the device (`kernel`, `gpu_memcpy`, `gpu_memset`), with the `correlation` of the call that launched it
- this package's own marks around the step and around its lines
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from graphsafe.report.probes.timeline import Gap, GapCause, Operation, OperationKind, Timeline

Event = Mapping[str, Any]

STEP = "graphsafe step"
LINE = "graphsafe line "
"The beginning of the name of a mark around a line. The line's index in a list follows."
_CALLS = frozenset(("cuda_runtime", "cuda_driver"))
_WORK: Mapping[str, OperationKind] = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "fill"}
_KINDS: Sequence[tuple[tuple[str, ...], OperationKind]] = (
    (("GraphLaunch",), "graph-launch"),
    (("LaunchKernel", "LaunchCooperativeKernel"), "launch"),
    (("StreamSynchronize", "DeviceSynchronize", "CtxSynchronize", "EventSynchronize"), "wait"),
    (("EventQuery", "StreamQuery"), "query"),
    (("Memcpy",), "copy"),
    (("Memset",), "fill"),
    (("Malloc", "Free", "MemAlloc", "MemFree", "HostAlloc"), "allocation"),
)
"Prefixes of the names of API functions, after `cuda` or `cu` has been removed."
_LEAST_GAP_US = 1.0
"A gap between two kernels must be at least this long to be reported."


def timeline_of(plain: Sequence[Event], named: Sequence[Event] = (), places: Sequence[str] = ()) -> Timeline:
    """Return the timeline of the step whose profile is `plain`.

    `named` is another profile of the same step, with marks around the lines in `places`. The times in `named` are not
    used, because marks take time. But `named` gives the lines of the calls that both profiles have.
    """
    plain, named = _timed(plain), _timed(named)
    step = _step(plain)
    if step is None:
        return Timeline("skipped", reason="the profiler recorded no step")
    calls = _calls(plain, step)
    lines = _lines(calls, named, places)
    work = _work(plain, calls)
    begin, end = step.begin, max([step.end, *(one.end for one in work)])
    busy = _joined(work)
    launched_at = {call.correlation: line for call, line in zip(calls, lines, strict=True)}
    from_graphs = {call.correlation for call in calls if call.kind == "graph-launch"}
    operations = [
        _operation("host", call, begin, line, _behind(call, busy)) for call, line in zip(calls, lines, strict=True)
    ]
    operations += [
        _operation("device", one, begin, launched_at.get(one.correlation), None, one.correlation in from_graphs)
        for one in work
    ]
    return Timeline(
        "pass",
        step_us=_rounded(end - begin),
        busy_us=_rounded(sum(until - since for since, until in busy)),
        operations=tuple(sorted(operations, key=lambda one: (one.begin_us or 0.0, one.lane))),
        gaps=tuple(_gaps(begin, busy, work, calls, lines)),
    )


@dataclass(frozen=True, slots=True)
class _Span:
    """An event, with the fields that are needed here."""

    kind: OperationKind
    name: str
    thread: object
    begin: float
    end: float
    correlation: int | None = None
    stream: int | None = None


def _span(event: Event, kind: OperationKind) -> _Span:
    arguments, begin = event.get("args") or {}, float(event["ts"])
    end, stream = begin + float(event["dur"]), arguments.get("stream")
    stream = stream if isinstance(stream, int) else None
    return _Span(kind, str(event["name"]), event.get("tid"), begin, end, arguments.get("correlation"), stream)


def _timed(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if event.get("ph") == "X" and "ts" in event and "dur" in event]


def _step(events: Iterable[Event]) -> _Span | None:
    """Return the mark around the step. The device's copy of the mark is ignored."""
    marks = [event for event in events if event["name"] == STEP and not str(event.get("cat")).startswith("gpu")]
    return _span(marks[0], "wait") if marks else None


def _kind(name: str) -> OperationKind | None:
    rest = name.removeprefix("cuda" if name.startswith("cuda") else "cu")
    return next((kind for begins, kind in _KINDS if rest.startswith(begins)), None)


def _calls(events: Iterable[Event], step: _Span) -> list[_Span]:
    """Return the calls during the step, in order. A call inside another call counts as part of the outer call."""
    found: list[_Span] = []
    last: dict[object, float] = {}
    for event in sorted(events, key=lambda event: (float(event["ts"]), -float(event["dur"]))):
        kind = _kind(str(event["name"])) if event.get("cat") in _CALLS else None
        if kind is None or not step.begin <= float(event["ts"]) <= step.end:
            continue
        call = _span(event, kind)
        if call.end > last.get(call.thread, 0.0):
            found.append(call)
            last[call.thread] = call.end
    return found


def _work(events: Iterable[Event], calls: Sequence[_Span]) -> list[_Span]:
    """Return the device's work that these calls launched, in order."""
    own = {call.correlation for call in calls} - {None}
    spans = [_span(event, _WORK[event["cat"]]) for event in events if event.get("cat") in _WORK]
    return sorted((one for one in spans if one.correlation in own), key=lambda one: (one.begin, one.end))


def _lines(calls: Sequence[_Span], named: Sequence[Event], places: Sequence[str]) -> list[str | None]:
    """Return the lines of the calls. Both profiles have the same calls at the beginning and at the end; calls between
    these have no line."""
    step = _step(named)
    if step is None:
        return [None] * len(calls)
    others = _calls(named, step)
    theirs = _marked(named, step, others, places)
    found: list[str | None] = [None] * len(calls)
    front, front_of_others = 0, 0
    for at, other in _same(calls, others):
        found[at] = theirs[other]
        front, front_of_others = at + 1, other + 1
    for at, other in _same(calls[front:][::-1], others[front_of_others:][::-1]):
        found[-1 - at] = theirs[-1 - other]
    return found


def _same(calls: Sequence[_Span], others: Sequence[_Span]) -> Iterator[tuple[int, int]]:
    """Yield the indices of equal calls, up to the first difference. Because of caches, one list may have fewer
    allocations."""
    at = other = 0
    while at < len(calls) and other < len(others):
        if calls[at].name == others[other].name:
            yield at, other
            at, other = at + 1, other + 1
        elif calls[at].kind == "allocation":
            at += 1
        elif others[other].kind == "allocation":
            other += 1
        else:
            return


def _marked(events: Iterable[Event], step: _Span, calls: Sequence[_Span], places: Sequence[str]) -> list[str | None]:
    """Return the innermost marked line around each call. If no line is marked on the call's own thread, use the line on
    the step's thread."""
    marks = [_span(event, "wait") for event in events if str(event["name"]).startswith(LINE)]
    moments = [*((mark.begin, 0, mark) for mark in marks), *((call.begin, 1, call) for call in calls)]
    moments.sort(key=lambda moment: (moment[0], moment[1], -moment[2].end))
    running: dict[object, list[_Span]] = {}
    found: list[str | None] = []
    for now, is_call, one in moments:
        for thread in {one.thread, step.thread}:
            marked = running.setdefault(thread, [])
            while marked and marked[-1].end < now:
                marked.pop()
        if not is_call:
            running[one.thread].append(one)
            continue
        around = running[one.thread] or running[step.thread]
        number = int(around[-1].name.removeprefix(LINE)) if around else len(places)
        found.append(places[number] if number < len(places) else None)
    return found


def _joined(work: Sequence[_Span]) -> list[tuple[float, float]]:
    """Return the times during which at least one stream works."""
    found: list[tuple[float, float]] = []
    for one in work:
        if found and one.begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], one.end)
        else:
            found.append((one.begin, one.end))
    return found


def _behind(call: _Span, busy: Sequence[tuple[float, float]]) -> float | None:
    """Return how long the device works during a wait; None for other calls."""
    if call.kind != "wait":
        return None
    first = max(bisect_right(busy, (call.begin, float("inf"))) - 1, 0)
    total = 0.0
    for since, until in busy[first:]:
        if since >= call.end:
            break
        total += max(min(until, call.end) - max(since, call.begin), 0.0)
    return _rounded(total)


def _gaps(
    begin: float,
    busy: Sequence[tuple[float, float]],
    work: Sequence[_Span],
    calls: Sequence[_Span],
    lines: Sequence[str | None],
) -> Iterable[Gap]:
    """Yield the times during which the device has no work, each with the host's call that explains it."""
    first_at = {one.begin: one for one in reversed(work)}
    numbers = {call.correlation: number for number, call in enumerate(calls)}
    idle = zip([begin, *(until for _, until in busy)], (since for since, _ in busy), strict=False)
    for since, until in idle:
        if until - since < _LEAST_GAP_US:
            continue
        launch = numbers.get(first_at[until].correlation)
        cause, by = _cause(since, launch, calls)
        yield Gap(cause, None if by is None else lines[by], _rounded(since - begin), _rounded(until - since))


def _cause(since: float, launch: int | None, calls: Sequence[_Span]) -> tuple[GapCause, int | None]:
    """Return the reason why nothing ran between `since` and the work that a call launched, and the index of the call
    whose line explains it."""
    if launch is None or calls[launch].begin <= since:
        return "device", launch
    meanwhile = list(takewhile(lambda number: calls[number].end >= since, range(launch - 1, -1, -1)))[::-1]
    # A copy that began before the device's work ended, and ended after it, has waited for that work.
    for number in meanwhile:
        if calls[number].kind == "wait" or (calls[number].kind == "copy" and calls[number].begin < since):
            return "wait", number
    allocating = [number for number in meanwhile if calls[number].kind == "allocation"]
    return ("allocation", allocating[0]) if allocating else ("host", launch)


def _operation(
    lane: Any, one: _Span, begin: float, place: str | None, behind: float | None, in_graph: bool = False
) -> Operation:
    since, us = _rounded(one.begin - begin), _rounded(one.end - one.begin)
    return Operation(lane, one.kind, one.name, place, since, us, one.stream, behind, in_graph, count=1)


def _rounded(us: float) -> float:
    return round(us, 2)
