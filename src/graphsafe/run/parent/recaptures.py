"""Finds lines that capture again and again while the program serves, so that captures are hardly used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from graphsafe.run.parent.seen import SeenGraph

_ENOUGH = 4
"""Number of captures of one line that count as many. A loop over buckets makes more of them, but before the first
replay."""
_REPLAYS = 2
"Number of replays below which a capture costs more than it saves."


@dataclass(frozen=True, slots=True)
class Recapture:
    graphs: tuple[SeenGraph, ...]

    @property
    def seconds(self) -> float:
        return sum(float(graph.facts["seconds"]) for graph in self.graphs)


def recaptures(graphs: Sequence[SeenGraph]) -> list[Recapture]:
    """Return lines with several captures in a row, each replayed before the next one and never after it: earlier graphs
    were dropped, or there are hardly more replays than captures."""
    lines: dict[tuple[Any, ...], list[SeenGraph]] = defaultdict(list)
    for graph in graphs:
        if graph.facts["nodes"] and graph.facts["frames"]:
            lines[tuple(tuple(frame.values()) for frame in graph.facts["frames"])].append(graph)
    found = []
    for same in lines.values():
        in_turn = [one for one, later in pairwise(same) if _is_used_up(one, later)]
        graphs_in_turn = (*in_turn, same[-1])
        replays = sum(graph.count.replays for graph in graphs_in_turn)
        dropped = all(graph.facts["dropped"] for graph in in_turn)
        if len(graphs_in_turn) >= _ENOUGH and (dropped or replays < _REPLAYS * len(graphs_in_turn)):
            found.append(Recapture(graphs_in_turn))
    return found


def _is_used_up(one: SeenGraph, later: SeenGraph) -> bool:
    """Return whether the last replay of a graph came before the next capture of its line."""
    begun: int = later.facts["begun"]
    return 0 < one.count.last <= begun
