"""Findings about races (in a graph or between replays), about memory that grows between replays, and about lines that
wait between replays."""

from __future__ import annotations

from graphsafe.capture.parent.finding_table import other_of
from graphsafe.capture.shared.classify import code_of, value_read
from graphsafe.capture.shared.places import line_text, text_at
from graphsafe.report.model import grouped
from graphsafe.run.parent.seen import last
from graphsafe.run.parent.writer import Writer
from graphsafe.run.part import POOL


def races(writer: Writer) -> None:
    """Add a finding at each line whose captured operation races with an earlier one.

    If the line's operations race with several earlier ones, the finding names the first of these.
    """
    for graph in writer.process.graphs:
        for race, *more in grouped(graph.facts.races, lambda one: last(one.frames)).values():
            line, (other, data) = last(race.frames), other_of(race)
            words = {"expr": race.op if line is None else text_at(line, race.span), "value": other}
            writer.about(graph, "GS619", line, words, data, number=1 + len(more), span=race.span, region="captured")


def refills(writer: Writer) -> None:
    """Add findings at writes to memory that a replay or a copy reads, if nothing orders the write before or after this
    read."""
    found = writer.process.facts.refills
    told = [refill.write[-1] for refill in found if refill.what is not None]
    for refill in (one for one in found if one.what is not None or one.write[-1] not in told):
        replay, is_copy = last(refill.replay), refill.what is None
        reads = "asynchronous copy" if is_copy else "replay"
        reader = f"{'an' if is_copy else 'a'} {reads}" if replay is None else f"the {reads} at {line_text(replay)}"
        what = refill.what or ("pinned memory" if refill.is_pinned else "device memory")
        words = {"expr": what if refill.what in (None, POOL) else f"`{what}`", "value": reader}
        data = {"what": what, "replay": None if replay is None else line_text(replay)}
        text = {}
        if refill.by_host:
            fix = f"have the host wait for an event recorded after that {reads.split()[-1]} before it writes"
            text["fix"] = f"{fix} again, or fill two buffers in turn"
        elif refill.what == POOL:
            text["fix"] = "replay both on one stream, make the streams wait, or give each graph a pool of its own"
        writer.add("GS714", refill.write[-1], words, data, certain=False, text=text)


def growing_tensors(writer: Writer) -> None:
    """Add findings at lines that make a tensor longer after each replay.

    Graphs do not read this tensor, so the growth only costs time.
    """
    for one in writer.process.facts.device.growing:
        line, span = one.frames[-1], one.span
        expr = text_at(line, span)
        text = {
            "message": f"`{expr}` makes a tensor longer after each replay, {one.times} times",
            "why": f"Each time, the whole tensor is allocated and copied: {one.copied:,} bytes in all.",
            "fix": "write into one buffer of full length, or collect clones in a list and join them once",
        }
        writer.add("GS402", line, {}, {"bytes": one.copied}, level="note", number=one.times, span=span, text=text)


def repeated_waits(writer: Writer) -> None:
    """Add findings at lines that wait repeatedly between replays. A warm-up or a final synchronisation is not
    reported."""
    for wait in writer.process.facts.waits or ():
        event = wait.event
        code = code_of(event, writer.book.ops)
        if code is None or wait.turns < 2:
            continue
        line = event.frames[-1]
        took = "" if wait.ms is None else f" {wait.ms:.3g} ms in all."
        if event.op == "torch.cuda.synchronize":
            code = "GS610"
        words = {"expr": text_at(line, event.span), "value": value_read(code)}
        data = {"op": event.op, "ms": wait.ms}
        writer.add(code, line, words, data, because=took, level="warning", number=wait.count, span=event.span)
