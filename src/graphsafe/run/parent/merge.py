"""Joins the parts of all processes into one ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

from graphsafe.capture.answers.build import Platform
from graphsafe.capture.parent.environment import environment
from graphsafe.capture.parent.join import with_comments
from graphsafe.capture.shared.places import chain, location, shown
from graphsafe.report.fingerprint import fingerprinted
from graphsafe.report.ledger.model import (
    CUT_OFF,
    Captured,
    Eager,
    Failed,
    Graph,
    Held,
    Idle,
    Ledger,
    LineBytes,
    Outside,
    Process,
    Replayer,
    Turn,
    Wait,
)
from graphsafe.report.model import CallSite, Limit, Location, Span, Tool
from graphsafe.report.source import file_line
from graphsafe.report.text import count
from graphsafe.rulebook.book import Rulebook
from graphsafe.run.facts import OutsideUse, ProcessFacts, StepFacts, WaitFacts
from graphsafe.run.parent.findings import findings_of
from graphsafe.run.parent.idle import Readings
from graphsafe.run.parent.seen import SeenGraph, SeenProcess, seen_processes
from graphsafe.run.part import Part
from graphsafe.version import __version__

_MOST_TURNS = 1000
_UNWATCHED = (
    "no Python process that has graphsafe imported torch; programs of another environment are not watched, nor "
    "are `python -I`, -E and -S, which ignore PYTHONPATH or sitecustomize"
)
_ALWAYS = {
    "graphs that C++ code captures or replays": "only the Python methods of torch.cuda.CUDAGraph are watched",
    "memory that no tensor of the program holds": "it cannot be followed: memory of other allocators, workspaces",
}
"Part of a run that is never seen -> the reason."


def ledger_of(
    parts: Sequence[Part], program: Sequence[str], exit_code: int | None, book: Rulebook, readings: Readings
) -> Ledger:
    """Return the ledger of a run: the processes with their names, the findings, and the limits."""
    seen = seen_processes(parts)
    found, limits = findings_of(seen, book)
    findings, _ = with_comments(found)
    limits += [Limit(*texts) for process in seen for texts in process.facts.limits]
    limits += [Limit("internal", f"process {one.name}", one.facts.fault) for one in seen if one.facts.fault]
    if exit_code is not None:
        limits += [_cut_off(one) for one in seen if not one.facts.is_whole and not one.outlives]
    limits += [_inherited(one, unlisted) for one in seen if one.facts.is_whole and (unlisted := _unlisted(one))]
    limits += [
        Limit("still-running", f"process {one.name}", "it outlives the program, and the ledger ends before it")
        for one in seen
        if one.outlives and one.has_torch
    ]
    processes = tuple(_process(process, readings) for process in seen)
    limits += [Limit("unseen", what, why) for what, why in _ALWAYS.items()]
    if all(part.facts is None for part in parts):
        limits.append(Limit("not-watched", "the program", _UNWATCHED))
    limits += _unread(seen, processes, readings)
    devices = [process.facts.device for process in seen if process.has_torch]
    # for each process its current device, then each device on which it captured
    platforms = [one for device in devices for one in (device.machine, *map(Platform, device.devices))]
    return Ledger(
        tool=Tool("graphsafe", __version__),
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        environment=environment(platforms, book.ops.name, ()),
        program=tuple(program),
        exit_code=exit_code,
        findings=tuple(fingerprinted(findings, file_line, shown)),
        limits=tuple(dict.fromkeys(limits)),
        processes=processes,
    )


def _cut_off(process: SeenProcess) -> Limit:
    """Return the limit of a process that could not report its last second.

    The counters show how often further graphs were replayed in that second.
    """
    why = "a signal, os._exit or a crash ended it: the events of its last second are missing, except replays"
    if unlisted := _unlisted(process):
        replays = count(sum(unlisted.values()), "replay")
        why += f"; {replays} of {count(len(unlisted), 'further graph')} were counted"
    return Limit(CUT_OFF, f"process {process.name}", why)


def _inherited(process: SeenProcess, unlisted: Mapping[int, int]) -> Limit:
    """Return the limit of a process that also replayed graphs which it had inherited by a fork. Only the simulated
    device can be used after a fork."""
    replays = count(sum(unlisted.values()), "replay")
    why = f"{replays} were counted; a process lists only graphs that it captured after it was forked"
    return Limit("unseen", f"{count(len(unlisted), 'graph')} that process {process.name} has inherited", why)


def _unlisted(process: SeenProcess) -> dict[int, int]:
    """Return the numbers of graphs that a process replayed but did not report, each with its number of replays."""
    known, found = {graph.facts.number for graph in process.graphs}, Counter[int]()
    for number, times in process.order.runs:
        found[number] += 0 if number in known else times
    return {number: times for number, times in found.items() if times}


def _unread(seen: Sequence[SeenProcess], told: Sequence[Process], readings: Readings) -> list[Limit]:
    """Return a limit that says why the share of idle time is unknown, if graphs were replayed on a GPU."""
    unknown = [one for one, process in zip(seen, told, strict=True) if process.idle is None and one.facts.device.gpus]
    if not any(graph.count.replays for one in unknown for graph in one.graphs):
        return []
    why = readings.problem or "NVML reported too little: the replays took only seconds, or the GPU is in MIG mode"
    return [Limit("unseen", "the share of time in which the GPU idles", why)]


def _process(process: SeenProcess, readings: Readings) -> Process:
    facts = process.facts
    pools = [graph.facts.pool_bytes for graph in process.graphs if not graph.facts.dropped]
    return Process(
        name=process.name,
        rank=facts.rank,
        started_by=process.started_by,
        graphs=tuple(_graph(graph) for graph in process.graphs),
        failed=tuple(
            Failed(_place(one.frames, one.span), one.error, _place([one.swallowed_by])) for one in facts.failed
        ),
        eager=_eager(facts.steps),
        waits=_waits(facts.waits),
        memory=Held(_bytes(pools) if process.has_torch else None, _by_line(facts)),
        idle=_idle(process, readings),
        order=None if facts.rank is None else _order(process),
    )


def _bytes(pools: Sequence[int | None]) -> int | None:
    """Return the sum, or None if one of the numbers is unknown."""
    known = [one for one in pools if one is not None]
    return sum(known) if len(known) == len(pools) else None


def _order(process: SeenProcess) -> tuple[Turn, ...]:
    names = {graph.facts.number: graph.name for graph in process.graphs}
    turns = [(number, times) for number, times in process.order.runs if number in names and times]
    return tuple(Turn(names[number], times) for number, times in turns[:_MOST_TURNS])


def _idle(process: SeenProcess, readings: Readings) -> Idle | None:
    counts = [graph.count for graph in process.graphs if graph.count.first]
    first, last = min((one.first for one in counts), default=0), max((one.last for one in counts), default=0)
    return readings.idle(process.facts.device.gpus, first, last)


def _eager(steps: Sequence[StepFacts] | None) -> Eager | None:
    if steps is None:
        return None
    told = [step for step in steps if step.sizes or step.off] or steps
    sizes = {int(size): times for step in told for size, times in {**step.off, **step.sizes}.items()}
    captured = {int(size) for step in told for size in step.captured}
    return Eager(sum(sizes.values()), tuple(sorted(sizes)), tuple(sorted(captured)))


def _waits(facts: Sequence[WaitFacts] | None) -> tuple[Wait, ...] | None:
    if facts is None:
        return None
    return tuple(Wait(_place(one.event.frames, one.event.span), one.count, one.ms) for one in facts)


def _by_line(facts: ProcessFacts) -> tuple[LineBytes, ...] | None:
    lines = facts.by_line
    found = (LineBytes(location(one.line, None), one.bytes) for one in lines or ())
    return None if lines is None else tuple(found)


def _graph(graph: SeenGraph) -> Graph:
    facts, counted = graph.facts, graph.count
    return Graph(
        name=graph.name,
        captured=Captured(
            location=_place(facts.frames, facts.span),
            call_chain=chain(facts.frames),
            stream=facts.stream,
            thread=facts.thread,
            seconds=round(facts.seconds, 6),
            at=_time(facts.begun),
        ),
        device=facts.device,
        nodes=facts.nodes,
        pool_bytes=facts.pool_bytes,
        replays=counted.replays,
        first_replay=_time(counted.first),
        last_replay=_time(counted.last),
        outside=tuple(_outside(one, counted.replays) for one in facts.outside),
        replayed_by=tuple(Replayer(*one) for one in facts.replayed_by),
        generators=facts.draws_from,
        instantiations=max(1, facts.instantiations),
    )


def _outside(use: OutsideUse, replays: int) -> Outside:
    return Outside(
        what=use.what,
        bytes=use.bytes,
        access=use.access,
        status=use.status,
        made=_place([use.made]),
        where=_place(use.frames),
        replays_since=0 if use.lost_after is None else replays - use.lost_after,
    )


def _place(calls: Sequence[CallSite | None], span: Span | None = None) -> Location | None:
    """Return the line of the last call, or None if there is no call or if the line is unknown."""
    line = calls[-1] if calls else None
    return None if line is None else location(line, span)


def _time(nanoseconds: int) -> str | None:
    if not nanoseconds:
        return None
    return datetime.fromtimestamp(nanoseconds / 1e9, timezone.utc).isoformat(timespec="milliseconds")
