"""Findings about operations in a graph that use the same memory, and that the graph does not order."""

from __future__ import annotations

from graphsafe.capture.parent.finding_table import at_place, place_of
from graphsafe.capture.shared.places import text_at
from graphsafe.report.kernel_names import readable
from graphsafe.run.parent.seen import grouped, last
from graphsafe.run.parent.writer import Writer


def races(writer: Writer) -> None:
    """Add a finding at each line with an operation that races with an earlier captured one.

    If it races with several, the finding names the first one.
    """
    for graph in writer.process.graphs:
        for race, *more in grouped(graph.facts.races, lambda one: last(one.frames)):
            line, other = last(race.frames), f"{readable(race.other_op)}{at_place(race.other_frames)}"
            words = {"expr": race.op if line is None else text_at(line, race.span), "value": other}
            data = {"op": race.op, "other": {"op": race.other_op, **place_of(race.other_frames)}}
            writer.about(graph, "GS619", line, words, data, number=1 + len(more), span=race.span, region="captured")
