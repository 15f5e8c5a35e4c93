"""Findings about values, names and tensors that a graph froze at its capture and that have changed since then."""

from __future__ import annotations

from graphsafe.capture.shared.places import line_text
from graphsafe.report.model import grouped
from graphsafe.report.text import count, listed
from graphsafe.run.parent.seen import last
from graphsafe.run.parent.writer import Writer, named


def old_arguments(writer: Writer) -> None:
    """Add findings for replays at which a value of the program differs from the value that the graph froze."""
    told = [(one, one.facts.stale) for one in writer.process.graphs if one.facts.stale is not None and one.facts.frames]
    for (graph, stale), *_ in grouped(told, lambda pair: (last(pair[0].facts.frames), pair[1].name)).values():
        replay = f"the replay at {line_text(stale.frames[-1])}" if stale.frames else "a replay"
        value = f"{stale.captured} at capture and {stale.now} at {replay}"
        data = {"argument": stale.name, "captured": stale.captured, "now": stale.now}
        words = {"expr": f"`{stale.name}`", "value": value}
        writer.about(graph, "GS713", stale.at or graph.facts.frames[-1], words, data)


def exchanged_buffers(writer: Writer) -> None:
    """Add findings for buffers whose names the program exchanges, if a replay then used them in the old order."""
    for graph in writer.process.graphs:
        told = graph.facts.rotated
        if told is None:
            continue
        names = listed(f"`{one}`" for one in told.names)
        text = {
            "message": f"{names} are swapped while {named(graph)} is captured, but not when it is replayed",
            "why": "Each replay reads and writes the addresses of the capture. The second of two replays in "
            "a row reads the values that the first one began with, so the step makes no progress.",
            "fix": "copy the result into the buffer that the step reads, or capture one graph for each order of "
            "the buffers and replay them in turn",
        }
        if told.when == "replayed":
            text["message"] = f"{names} are swapped between replays of {named(graph)}, which uses the old order"
            text["why"] = "Each replay reads and writes the addresses of the capture, whatever the names refer to now."
        frame = told.at or last(graph.facts.frames)
        writer.about(graph, "GS703", frame, {}, {"names": told.names}, text=text)


def dropped_gradients(writer: Writer) -> None:
    """Add findings at lines that drop gradients which a graph writes, if the optimizer then made a step without
    them."""
    told = [one for one in writer.process.graphs if one.facts.skipped]
    for graph, *_ in grouped(told, lambda one: last(one.facts.let_go)).values():
        weights = count(graph.facts.skipped, "weight")
        text = {
            "message": f"the gradients that {named(graph)} writes are dropped, so the optimizer skips {weights}",
            "why": "Replays write the gradients of the capture. Each weight's `grad` is None since this line, so "
            "the optimizer's step finds nothing to do.",
            "fix": "zero_grad(set_to_none=False), or let zero_grad() be part of the captured step",
        }
        writer.about(graph, "GS703", graph.facts.let_go[-1], {}, {"weights": graph.facts.skipped}, text=text)


def state_made_in_captures(writer: Writer) -> None:
    """Add findings at steps of optimizers that made their state in the capture."""
    told = [(one, one.facts.made) for one in writer.process.graphs if one.count.replays > 1]
    made = [(graph, one) for graph, one in told if one is not None and one.frames]
    for (graph, one), *_ in grouped(made, lambda pair: last(pair[1].frames)).values():
        state = f"{count(one.tensors, 'tensor')} of state"
        text = {
            "message": f"the first step of `{one.optimizer}` is captured, so each replay of {named(graph)} makes "
            f"{state} anew",
            "why": "An optimizer makes its state (momentum, averages) in its first step. If that step is captured, its "
            "initialisation is part of the graph, and replays lose what earlier steps have collected.",
            "fix": "call the optimizer's step at least once in the warm-up, before the capture",
        }
        writer.about(graph, "GS701", one.frames[-1], {}, {"optimizer": one.optimizer}, text=text)


def outdated_tensors(writer: Writer) -> None:
    """Add findings at writes after which a graph still reads tensors that were computed from the old values."""
    for same in grouped(writer.process.facts.device.outdated, lambda one: last(one.frames)).values():
        source, what = same[0].source, listed(dict.fromkeys(f"`{one.what}`" for one in same), most=3)
        replays = max(one.replays for one in same)
        value = f"{count(replays, 'replay')} read {what}, not recomputed from the new values"
        data = {"what": [one.what for one in same], "source": source, "replays_since": replays}
        words = {"expr": f"a write to `{source}`", "value": value}
        frame = last(same[0].frames)
        writer.add("GS712", frame, words, data, certain=False, number=len(same))
