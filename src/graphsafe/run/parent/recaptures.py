"""Finds lines that capture repeatedly while the program serves requests, although their graphs are hardly replayed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from graphsafe.report.model import grouped
from graphsafe.report.text import listed
from graphsafe.run.parent.seen import SeenGraph

_ENOUGH = 4
"""A line is reported if it made at least this many captures of this kind.

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

    @property
    def seconds(self) -> float:
        return sum(float(graph.facts.seconds) for graph in self.graphs)


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
    over = [one for one, later in in_turn if one.facts.number in copied or _is_over(one, later, same[-1])]
    mostly = len(over) >= _ENOUGH - 1 and 2 * len(over) >= len(in_turn)
    enough = (_REPLAYS_DROPPED if mostly else _REPLAYS) * len(again.graphs)
    if len(again.graphs) >= _ENOUGH and again.replays < enough:
        return again
    repeated = [(one, later) for one, later in pairwise(same) if later.facts.is_again]
    anew = [(one, later) for one, later in repeated if 0 < one.count.first <= later.facts.begun]
    each = Recapture(tuple({graph.name: graph for pair in anew for graph in pair}.values()), for_inputs=True)
    return each if len(each.graphs) >= _ENOUGH and each.replays < _REPLAYS_EACH * len(each.graphs) else None


def _is_over(graph: SeenGraph, later: SeenGraph, last: SeenGraph) -> bool:
    """Return whether a graph was dropped before the line's last capture, or replaced by a later graph for the same
    arguments.

    A graph for other arguments does not count, because it may be replayed again. A graph that the program drops when it
    ends does not count either.
    """
    dropped, begun = graph.facts.dropped, last.facts.begun
    return (dropped is not None and bool(dropped <= begun)) or _arguments(graph) == _arguments(later)


def _arguments(graph: SeenGraph) -> dict[str, str]:
    """Return the frozen arguments of a graph, and the shapes of its memory outside the pool."""
    shapes = {use.what: use.shape for use in graph.facts.outside}
    return {**graph.facts.key, **shapes}
