"""Findings about graphs that are hardly replayed, about lines that capture again and again, and about steps that run
without a graph."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from graphsafe.report.ledger.traffic import advice
from graphsafe.report.model import grouped
from graphsafe.report.text import count, listed
from graphsafe.run.facts import StepFacts
from graphsafe.run.parent.seen import SeenGraph, last
from graphsafe.run.parent.writer import Writer

_CHANCE = 100
"A graph without replays counts as useless if its step has run this many times for each graph of the same line."
_SELDOM = 0.1
"If at most this share of a step's runs had no graph, these runs count as intended exceptions."
_ENOUGH = 4
"""A line that captures again and again is reported if it made at least this many such captures.

A loop over buckets makes more captures than that, but all before the first replay.
"""
_REPLAYS = 2
"A capture with fewer replays than this costs more than it saves."
_REPLAYS_DROPPED = 100
"""The limit of replays for graphs that are dropped or replaced.

A server that loads another model drops its graphs too, but only after many replays.
"""
_REPLAYS_EACH = 3
"The limit of replays for captures that one graph with a static input could replace."
_LITTLE = 0.1
"If the share of padding is below this, no further graph is worthwhile."
_MOST_FURTHER = 8
"At most this many further sizes are proposed."
_MOST_TRIED = 64
"Further sizes are chosen from the most frequent sizes. At most this many sizes are considered."


def useless_graphs(writer: Writer) -> None:
    """Add findings for graphs that contain no work, are never replayed, or are captured again and again."""
    graphs = [graph for graph in writer.process.graphs if not graph.facts.keeps_pool]
    for graph in graphs:
        frame = last(graph.facts.frames)
        if graph.facts.nodes == {} and graph.count.replays:
            writer.add("GS602", frame, {"expr": "it has no nodes"}, {"graph": graph.name})
    again = recaptures(graphs)
    for recapture in again:
        _recapture(writer, recapture)
    counted = {graph.name for recapture in again for graph in recapture.graphs}
    served = any(graph.count.replays for graph in graphs)
    if served or writer.process.facts.ended:
        _never_replayed(writer, [one for one in graphs if one.name not in counted])


@dataclass(frozen=True, slots=True)
class Recapture:
    graphs: tuple[SeenGraph, ...]
    for_inputs: bool = False
    "Whether the captures differ only in one input tensor, of equal size in all of them."

    @property
    def replays(self) -> int:
        return sum(graph.count.replays for graph in self.graphs)

    @property
    def varied(self) -> str:
        """The first argument or input in which the captures differ: `n = 5, 6, 7, 8 and 31 more`."""
        values: dict[str, dict[str, None]] = {}
        for graph in self.graphs:
            for name, value in _arguments(graph).items():
                values.setdefault(name, {})[value] = None
        return next((f"{name} = {listed(told, most=4)}" for name, told in values.items() if len(told) > 1), "")


def recaptures(graphs: Sequence[SeenGraph]) -> list[Recapture]:
    """Return the lines that capture again and again, if each graph is replayed only before the next capture.

    There is a second condition: most earlier graphs were dropped or replaced after few replays, or there were hardly
    more replays than captures. If captures differ only in one tensor of equal size, their graphs may also be replayed
    later. In this case, each capture must come after the first replay of the previous graph.
    """
    known = [one for one in graphs if one.facts.nodes and one.facts.frames]
    lines = grouped(known, lambda one: one.facts.frames).values()
    return [found for same in lines if (found := _of_line(same)) is not None]


def _of_line(same: Sequence[SeenGraph]) -> Recapture | None:
    """Return the repeated captures of one line, or None if there is no fault."""
    copied = {graph.facts.copy_of for graph in same}
    in_turn = [(one, later) for one, later in pairwise(same) if 0 < one.count.last <= later.facts.begun]
    again = Recapture((*(one for one, _ in in_turn), same[-1]))
    over = [one for one, later in in_turn if one.facts.number in copied or _is_over(one, later, same[-1].facts.begun)]
    mostly = len(over) >= _ENOUGH - 1 and 2 * len(over) >= len(in_turn)
    enough = (_REPLAYS_DROPPED if mostly else _REPLAYS) * len(again.graphs)
    if len(again.graphs) >= _ENOUGH and again.replays < enough:
        return again
    repeated = [(one, later) for one, later in pairwise(same) if later.facts.is_again]
    anew = [(one, later) for one, later in repeated if 0 < one.count.first <= later.facts.begun]
    each = Recapture(tuple({graph.name: graph for pair in anew for graph in pair}.values()), for_inputs=True)
    return each if len(each.graphs) >= _ENOUGH and each.replays < _REPLAYS_EACH * len(each.graphs) else None


def _is_over(graph: SeenGraph, later: SeenGraph, begun: int) -> bool:
    """Return whether a graph was dropped before the line's last capture (at `begun`), or replaced by a later graph for
    the same arguments.

    A graph for other arguments does not count, because it may be replayed again. A graph that the program drops when it
    ends does not count either.
    """
    dropped = graph.facts.dropped
    return (dropped is not None and dropped <= begun) or _arguments(graph) == _arguments(later)


def _arguments(graph: SeenGraph) -> dict[str, str]:
    """Return the frozen arguments of a graph, and the shapes of its memory outside the pool."""
    shapes = {use.what: use.shape for use in graph.facts.outside}
    return {**graph.facts.key, **shapes}


def _recapture(writer: Writer, recapture: Recapture) -> None:
    graphs = recapture.graphs
    frame = graphs[0].facts.decided or last(graphs[0].facts.frames)
    replays, seconds = recapture.replays, sum(graph.facts.seconds for graph in graphs)
    value = f"{count(len(graphs), 'capture')} for {count(replays, 'replay')}, {seconds:.2g} s in all"
    value += ", each for another tensor of the same size" if recapture.for_inputs else ""
    value += f", with {recapture.varied}" if recapture.varied else ""
    data = {"graphs": [graph.name for graph in graphs], "captures": len(graphs), "replays": replays}
    words = {"expr": "this step", "value": value}
    writer.add("GS617", frame, words, data, device=graphs[0].facts.device, number=len(graphs))


def _never_replayed(writer: Writer, graphs: Iterable[SeenGraph]) -> None:
    """Add one finding for each line whose graphs were never replayed."""
    working = (one for one in graphs if one.facts.nodes)
    for siblings in grouped(working, lambda one: last(one.facts.frames)).values():
        idle = [graph for graph in siblings if not graph.count.replays]
        same = [graph for graph in idle if not _awaits_its_turn(writer, graph, siblings)]
        if not same:
            continue
        frame = last(same[0].facts.frames)
        names = [graph.name for graph in same]
        words = {"expr": f"graph {names[0]}" if len(names) == 1 else f"each of the graphs {listed(names)}"}
        writer.about(same[0], "GS618", frame, words, {"graphs": names}, certain=True, number=len(names))


def _awaits_its_turn(writer: Writer, graph: SeenGraph, siblings: Iterable[SeenGraph]) -> bool:
    """Return whether a graph without replays may still be needed.

    It may be needed if other graphs for the same work (with the same calls or the same nodes) were replayed, but this
    work has run rarely so far. There is a second condition: of the inputs that have this graph's size, the program gave
    at most one to another graph.
    """
    calls, nodes = graph.facts.frames, graph.facts.nodes
    like = [one for one in siblings if one.facts.frames == calls or one.facts.nodes == nodes]
    numbers, replays = {one.facts.number for one in like}, sum(one.count.replays for one in like)
    eager = [0]
    for step in writer.process.facts.steps or ():
        if any(not numbers.isdisjoint(graphs) for graphs in step.captured.values()):
            eager.append(sum(step.sizes.values()) + sum(step.off.values()))
    return graph.facts.passed_over <= 1 and replays > 0 and replays + max(eager) < _CHANCE * len(like)


def steps_after_the_graph(writer: Writer) -> None:
    """Add findings for steps that ran without a graph although the same loop replayed a graph of their size
    before."""
    for step in writer.process.facts.steps or ():
        off = step.off
        steps, captured, replays = sum(off.values()), step.captured, _replays_by_size(writer, step)
        if steps <= _SELDOM * (sum(replays[size] for size in off) + steps):
            continue
        data = {"steps": steps, "sizes": dict(off), "captured_sizes": list(map(int, captured)), "replays": replays}
        before = count(sum(replays[size] for size in off), "replay")
        words = {
            "expr": f"{count(steps, 'step')} of size {listed(off, most=6)}",
            "value": f"the same loop made {before} of that size until the graph was turned off",
        }
        frame = last(step.off_at)
        text = {"fix": "turn the graph on again, or log that steps run eagerly from then on"}
        writer.add("GS616", frame, words, data, certain=False, number=steps, text=text)


def eager_steps(writer: Writer) -> None:
    """Add findings for steps that ran without a graph at sizes that no graph covers."""
    told = set()
    for step in writer.process.facts.steps or ():
        sizes = step.sizes
        steps, replays = sum(sizes.values()), _replays_by_size(writer, step)
        if steps <= _SELDOM * (sum(replays.values()) + steps):
            continue
        frame = last(step.place)
        same = (frame, *sizes.items(), *replays)
        if same in told:  # the step consists of several parts, each with its own graphs
            continue
        told.add(same)
        captured = list(map(int, step.captured))
        further, waste = cover({int(size): times for size, times in sizes.items()}, captured)
        data = {
            "steps": steps,
            "sizes": dict(sizes),
            "captured_sizes": captured,
            "replays": replays,
            "cover": further,
            "waste": waste,
        }
        expr = f"{count(steps, 'step')} of size {listed(sizes, most=6)}"
        words = {"expr": expr, "value": f"captured are {listed(step.captured, most=12)}"}
        writer.add("GS616", frame, words, data, because=advice(further, waste), number=steps)


def _replays_by_size(writer: Writer, step: StepFacts) -> dict[str, int]:
    seen = writer.graphs
    return {size: sum(seen[one].count.replays for one in same if one in seen) for size, same in step.captured.items()}


def cover(eager: Mapping[int, int], captured: Collection[int]) -> tuple[list[int], float]:
    """Return a few further sizes to capture, so that every eager size can be padded to a captured one. Also return the
    share of padding that remains among all rows of the padded steps.

    `eager` maps each size to the number of its steps. The largest eager size comes first if no captured size covers it.
    The sizes that save the most padding follow.
    """
    largest = max(eager)
    chosen = [] if largest <= max(captured, default=0) else [largest]
    tried = sorted(sorted(eager, key=lambda size: -eager[size])[:_MOST_TRIED])
    while (waste := _waste(eager, [*captured, *chosen])) > _LITTLE and len(chosen) < _MOST_FURTHER:
        chosen.append(min(tried, key=lambda size: _waste(eager, [*captured, *chosen, size])))
    return sorted(chosen), round(waste, 4)


def _waste(eager: Mapping[int, int], sizes: Sequence[int]) -> float:
    ordered = sorted(sizes)
    padded = {size: ordered[bisect_left(ordered, size)] for size in eager}
    rows = sum(times * padded[size] for size, times in eager.items())
    return 1 - sum(times * size for size, times in eager.items()) / max(rows, 1)
