"""Findings about graphs that are hardly replayed, and about steps that run without a graph."""

from __future__ import annotations

from collections.abc import Iterable

from graphsafe.report.ledger.traffic import advice
from graphsafe.report.model import grouped
from graphsafe.report.text import count, listed
from graphsafe.run.facts import StepFacts
from graphsafe.run.parent.covering import cover
from graphsafe.run.parent.recaptures import Recapture, recaptures
from graphsafe.run.parent.seen import SeenGraph, last
from graphsafe.run.parent.writer import Writer

_CHANCE = 100
"A graph without replays counts as useless if its step has run this many times for each graph of the same line."
_SELDOM = 0.1
"If at most this share of a step's runs had no graph, these runs count as intended exceptions."


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


def _recapture(writer: Writer, recapture: Recapture) -> None:
    graphs = recapture.graphs
    frame = graphs[0].facts.decided or last(graphs[0].facts.frames)
    replays = recapture.replays
    value = f"{count(len(graphs), 'capture')} for {count(replays, 'replay')}, {recapture.seconds:.2g} s in all"
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
        covered = cover({int(size): times for size, times in sizes.items()}, captured)
        data = {
            "steps": steps,
            "sizes": dict(sizes),
            "captured_sizes": captured,
            "replays": replays,
            "cover": list(covered.sizes),
            "waste": covered.waste,
        }
        expr = f"{count(steps, 'step')} of size {listed(sizes, most=6)}"
        words = {"expr": expr, "value": f"captured are {listed(step.captured, most=12)}"}
        writer.add("GS616", frame, words, data, because=advice(covered.sizes, covered.waste), number=steps)


def _replays_by_size(writer: Writer, step: StepFacts) -> dict[str, int]:
    seen = writer.graphs
    return {size: sum(seen[one].count.replays for one in same if one in seen) for size, same in step.captured.items()}
