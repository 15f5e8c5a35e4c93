"""Findings about operations in a graph that use the same memory, and that the graph does not order."""

from __future__ import annotations

from graphsafe.capture.parent.finding_table import other_of
from graphsafe.capture.shared.places import text_at
from graphsafe.report.model import grouped
from graphsafe.run.parent.seen import last
from graphsafe.run.parent.writer import Writer


def races(writer: Writer) -> None:
    """Add a finding at each line with an operation that races with an earlier captured one.

    If it races with several, the finding names the first one.
    """
    for graph in writer.process.graphs:
        for race, *more in grouped(graph.facts.races, lambda one: last(one.frames)).values():
            line, (other, data) = last(race.frames), other_of(race)
            words = {"expr": race.op if line is None else text_at(line, race.span), "value": other}
            writer.about(graph, "GS619", line, words, data, number=1 + len(more), span=race.span, region="captured")
