"""Names lines and graphs in messages: `engine.py:88`, `reload (engine.py:210)`, `graph 8 of decode.py:88`."""

from __future__ import annotations

from collections.abc import Sequence

from graphsafe.capture.shared.places import shown
from graphsafe.report.text import count
from graphsafe.run.parent.seen import Facts, SeenGraph


def at(frame: Facts) -> str:
    return f"{shown(frame['path'])}:{frame['line']}"


def by(frame: Facts) -> str:
    """Return the line with its function; at module level only the line."""
    return f"{frame['function']} ({at(frame)})" if frame["function"] else at(frame)


def named(graph: SeenGraph) -> str:
    frames = graph.facts["frames"]
    return f"graph {graph.name} of {at(frames[-1])}" if frames else f"graph {graph.name}"


def all_named(graphs: Sequence[SeenGraph]) -> str:
    if len(graphs) == 1:
        return named(graphs[0])
    return f"{named(graphs[0])} and {count(len(graphs) - 1, 'more graph')}"
