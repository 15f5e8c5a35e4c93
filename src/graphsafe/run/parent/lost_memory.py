"""Findings about memory that graphs still use after the program has freed, moved or rebound it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from graphsafe.capture.shared.classify import function_at
from graphsafe.capture.shared.places import line_text
from graphsafe.report.model import CallSite, grouped
from graphsafe.report.text import count, listed
from graphsafe.run.facts import CASTS, Calls, LentUse, OutsideUse
from graphsafe.run.parent.seen import SeenGraph, last
from graphsafe.run.parent.writer import Writer, all_named, by

_ENOUGH = 2
"An overwritten tensor of a pool is reported if it is found at this many replays."


def lost_memory(writer: Writer) -> None:
    """Add findings for graphs that were replayed after memory outside their pool was lost: freed, moved or rebound.

    There is one finding for each line and kind of loss.
    """
    lost_uses = [
        (graph, use, graph.count.replays - use.lost_after)
        for graph in writer.process.graphs
        for use in graph.facts.outside
        if use.status != "alive" and use.lost_after is not None and use.lost_after < graph.count.replays
    ]
    overwritten = list(_overwritten(writer))
    lost_uses += overwritten
    places = {id(use): _place(graph, use) for graph, use, _ in lost_uses}
    for uses in grouped(lost_uses, lambda one: (last(places[id(one[1])][0]), one[1].status)).values():
        graph, use, _ = uses[0]
        frames, fate = places[id(use)]
        names = list(dict.fromkeys(f"`{one.what}`" for _, one, _ in uses))
        graphs = list({one.name: one for one, _, _ in uses}.values())
        since = max(number for _, _, number in uses)
        value = f"{'the memory of ' if len(names) > 1 else ''}the old {listed(names, most=3)}, {fate},"
        captured_by, lost_by = ([line_text(one) for one in calls] for calls in (graph.facts.frames, use.frames))
        data = {
            "graphs": [one.name for one in graphs],
            "what": [one.what for _, one, _ in uses],
            "status": use.status,
            "captured": captured_by[-1] if captured_by else None,
            "lost": lost_by[-1] if lost_by else None,
            "lost_by": lost_by,
            "captured_by": captured_by,
            "replays_since": since,
        }
        words = {"expr": f"{all_named(graphs)}, {count(since, 'replay')} since", "value": value}
        certain = any(one.certain for _, one, _ in uses)
        heirs = dict.fromkeys(one.heir for _, one, _ in uses if one.heir is not None)
        told = (("The graph was captured", captured_by), ("The memory was lost", lost_by))
        because = " ".join(f"{what} through {listed(calls, most=6)}." for what, calls in told if len(calls) > 1)
        because += f" The memory now belongs to {listed(heirs, most=3)}." if heirs else ""
        is_in_pool = use in (one for _, one, _ in overwritten)
        text = {"fix": f"keep {listed(names, most=3)} as long as the graphs are replayed"} if is_in_pool else {}
        if use.what == CASTS:
            text = {"fix": "give autocast cache_enabled=False around the capture"}
        writer.about(graph, "GS711", last(frames), words, data, certain, because=because, number=len(uses), text=text)


def _overwritten(writer: Writer) -> Iterator[tuple[SeenGraph, OutsideUse, int]]:
    """Yield the uses of freed pool tensors whose memory another graph of the pool overwrites. Each comes with the
    number of replays at which the tensor was overwritten.

    One such replay may be a warm-up. So several such replays are required, each after a new replay of the overwriting
    graph.
    """
    for graph in writer.process.graphs:
        for one in graph.facts.lent:
            found = _replays_after(writer.process.order.runs, graph.facts.number, one)
            takers = [writer.graphs[number] for number in one.takers if number in writer.graphs]
            if len(found) >= _ENOUGH and takers:
                heir = f"{all_named(takers)}, whose replays overwrite it"
                yield graph, replace(one.use, heir=heir), sum(found)


def _replays_after(runs: Sequence[tuple[int, int]], graph: int, lent: LentUse) -> list[int]:
    """Return how often a graph was replayed while a tensor was overwritten, one number for each run of replays."""
    found = []
    is_overwritten = False
    for number, times in runs:
        if number in lent.takers:
            is_overwritten = True
        elif number in lent.makers:
            is_overwritten = False
        elif number == graph and is_overwritten:
            found.append(times)
    return found


def _place(graph: SeenGraph, use: OutsideUse) -> tuple[Calls, str]:
    """Return the calls that lead to the line to which a finding points, and how the memory was lost there."""
    frames, captured, status = use.frames, graph.facts.frames, use.status
    is_return = bool(frames) and frames == captured[: len(frames)] and len(frames) < len(captured)
    if is_return and status != "rebound":  # the rebound name is no variable of this function, so the line is unknown
        # Python frees a function's variables when it has returned, while its caller's line runs.
        returned = captured[len(frames)]
        bound = _line_of(returned, use.what)
        place = replace(returned, line=bound or returned.line)
        return (*frames, place), f"which {by(place)} {status} when it returned"
    if frames and frames != captured and not is_return:
        return frames, f"which {by(frames[-1])} {status}"
    if use.instead is not None:
        return (use.instead,), f"which a tensor of {by(use.instead)} has replaced"
    return captured, f"which was {status}"


def _line_of(frame: CallSite, variable: str) -> int | None:
    """Return the last line of a function that assigns a variable, up to the running line. Return None if there is
    none."""
    around = function_at(frame.path, frame.line)
    names = () if around is None else (one for one in ast.walk(around) if isinstance(one, ast.Name))
    lines = [one.lineno for one in names if one.id == variable and not isinstance(one.ctx, ast.Load)]
    return max((line for line in lines if line <= frame.line), default=None)
