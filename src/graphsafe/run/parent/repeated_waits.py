"""Findings about lines that wait for the device between replays."""

from __future__ import annotations

from graphsafe.capture.shared.classify import code_of, value_read
from graphsafe.capture.shared.places import text_at
from graphsafe.run.parent.writer import Writer


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
