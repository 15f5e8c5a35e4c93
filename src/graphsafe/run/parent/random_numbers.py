"""Findings about random numbers: generators that are replaced or seeded again, and draws on the host."""

from __future__ import annotations

from graphsafe.capture.shared.places import text_at
from graphsafe.report.model import grouped
from graphsafe.run.parent.seen import last
from graphsafe.run.parent.writer import Writer, named


def generators(writer: Writer) -> None:
    """Add findings for generators that were replaced after the capture, for generators that were registered while
    another device was current, and for seeds that are set before each replay."""
    told = [(one, one.facts.generators) for one in writer.process.graphs]
    misplaced = [(graph, one.misplaced) for graph, one in told if one.misplaced]
    for (graph, frames), *_ in grouped(misplaced, lambda pair: last(pair[1])).values():
        text = {
            "message": f"a generator is registered with {named(graph)} while another device is current",
            "why": "PyTorch makes the seed's memory on the current device. A replay on the generator's own device "
            "reads it there and ends with an illegal memory access (torch 2.11).",
            "fix": "register it in `with torch.cuda.device(generator.device):`",
        }
        writer.about(graph, "GS502", frames[-1], {}, text=text)
    replaced = [(graph, one.replaced) for graph, one in told if one.replaced and one.replaced.frames]
    for (graph, one), *_ in grouped(replaced, lambda pair: last(pair[1].frames)).values():
        text = {
            "message": f"replays of {named(graph)} draw from the generator that `{one.name}` no longer holds",
            "why": "A graph draws from the generators that were registered before its capture. Replays use neither "
            "a generator that replaces one of them nor its seed.",
            "fix": "keep the generator and set its seed or state (manual_seed, set_state), or register the "
            "new one with a new graph and capture again",
        }
        if not one.is_line_known:
            text["why"] += " The line that replaced it is not known. This is the first replay after the replacement."
        writer.about(graph, "GS502", one.frames[-1], {}, {"generator": one.name}, text=text)
    seeds = [(graph, how, frames) for graph, one in told for how, frames in one.seeded.items() if frames]
    for (graph, how, frames), *_ in grouped(seeds, lambda one: (one[1], last(one[2]))).values():
        expr = text_at(frames[-1], None)
        text = {
            "message": f"`{expr}` sets the same seed before each replay of {named(graph)}",
            "why": "A replay draws from the generator's seed and offset, so every replay draws the same numbers.",
            "fix": "set the seed once, before the first replay, or set another seed before each replay",
        }
        if how == "unknown":
            text["message"] = f"the same seed is set before each replay of {named(graph)}"
        elif how == "captured":
            text = {
                "message": f"`{expr}` is captured code, which replays of {named(graph)} do not run",
                "why": "A capture records no seed. Replays advance the generator, so each draws other numbers.",
                "fix": "draw the numbers once, before the capture, or seed before each replay",
            }
        writer.about(graph, "GS503", frames[-1], {}, level="warning", text=text)


def host_draws(writer: Writer) -> None:
    """Add findings at captured lines that draw random numbers on the host."""
    graphs = [one for one in writer.process.graphs if one.count.replays > 1]
    told = [(one, one.facts.drawn) for one in graphs if one.facts.drawn is not None]
    for (graph, line), *_ in grouped(told, lambda pair: pair[1]).values():
        writer.about(graph, "GS504", line, {"expr": text_at(line, None)}, region="captured")
