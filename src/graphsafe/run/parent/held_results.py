"""Findings about results that the program keeps or reads although a later replay overwrites them."""

from __future__ import annotations

from graphsafe.capture.shared.places import line_text, text_at
from graphsafe.report.model import grouped
from graphsafe.run.parent.seen import last
from graphsafe.run.parent.writer import Writer, all_named, named


def kept_results(writer: Writer) -> None:
    """Add findings for results that the program keeps although every replay overwrites them."""
    for how, does in (("collected", "keeps results of earlier replays"), ("compared", "compares a result with itself")):
        told = [(calls[-1], one) for one in writer.process.graphs if (calls := getattr(one.facts, how))]
        for frame, same in grouped(told, lambda pair: pair[0]).items():
            graphs = [graph for _, graph in same]
            because = f"Here the program {does}: each replay of {all_named(graphs)} overwrites the previous one."
            data = {"graphs": [one.name for one in graphs], "how": how}
            words = {"expr": text_at(frame, None), "value": "earlier results are held"}
            text = {}
            if how == "collected" and not graphs[0].facts.is_keeper_known:
                text["message"] = f"this replay overwrites earlier results of {all_named(graphs)}, which are kept"
                because = "Their number grew from replay to replay. The line that keeps them is not known."
            writer.about(graphs[0], "GS706", frame, words, data, because=because, certain=True, text=text)


def overwritten_results(writer: Writer) -> None:
    """Add findings at reads of a result that another replay has overwritten.

    It was a replay of the same graph or of another graph of the same pool.
    """
    for graph in writer.process.graphs:
        found = graph.facts.overwritten
        other = None if found is None else writer.graphs.get(found.by)
        if found is None or other is None or graph.facts.compared[-1:] == (found.read,):
            continue
        replay = last(found.replay)
        again = "a replay" if replay is None else f"a replay at {line_text(replay)}"
        own = f"Before this, {again} has overwritten it."
        pooled = f"Before this, {again} of {named(other)} has overwritten it: both use the same memory of one pool."
        because = f"Here the program reads a result of {named(graph)}. {own if other is graph else pooled}"
        frame = found.read
        expr = text_at(frame, None)
        if found.later:
            expr = found.kept
            because = (
                f"Here a replay of {named(other)} overwrites a result of {named(graph)}, which "
                f"{line_text(found.later)} reads: both write the same buffer."
            )
        data = {"graphs": list(dict.fromkeys((graph.name, other.name))), "how": "overwritten"}
        words = {"expr": expr, "value": "an earlier result is read"}
        writer.about(graph, "GS706", frame, words, data, because=because)
