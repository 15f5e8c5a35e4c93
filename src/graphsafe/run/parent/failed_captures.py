"""Findings about captures that failed: the causes, and the handlers that swallowed the errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphsafe.capture.parent.finding_table import code_of_text
from graphsafe.capture.shared.classify import code_of_failure, value_read
from graphsafe.capture.shared.places import line_text, text_at
from graphsafe.report.model import Level
from graphsafe.run.facts import FailedCapture
from graphsafe.run.parent.seen import last
from graphsafe.run.parent.writer import Writer

_HARMLESS = {
    "refused": "a graph was refused before its capture began, and the surrounding except continues without it",
    "left": "an error in the captured code left a graph unfinished, and the surrounding except continues without it",
}
"The stage of a failed capture that corrupts nothing -> the message of the finding at the handler."
_FIX = "repair the cause, or re-raise; choose the eager path by configuration if it is wanted"
_WHOLE = "Nothing is corrupted, but from here on the steps silently run eagerly: "


def failed_captures(writer: Writer) -> None:
    """Add findings for failed captures.

    One is for the cause, one for the handler that swallowed the error, and one for a random generator that was left in
    capture mode. If the error ended the process, then no handler swallowed it, and no generator was left in capture
    mode.
    """
    has_ended = writer.process.facts.ended
    for failed in writer.process.facts.failed:
        frame, inner, handler = last(failed.frames), last(failed.inner), failed.swallowed_by
        said = {
            "first_error": {"message": failed.error, **({} if inner is None else {"at": line_text(inner)})},
            "captured": None if frame is None else line_text(frame),
            "swallowed_by": None if handler is None else line_text(handler),
        }
        cause = _cause(writer, failed, said)
        if handler is None and not has_ended:
            continue
        device = failed.device
        if failed.generator is not None:
            data = {**said, "draw": failed.generator, "cause": cause}
            because = "" if cause is None else f"It follows from the failed capture, {cause}."
            level: Level | None = None if cause is None else "warning"
            text = failed.error + ("" if inner is None else f" at {line_text(inner)}")
            writer.add("GS501", frame, {"expr": text}, data, because=because, device=device, level=level)
        expr = {} if frame is None else {"expr": text_at(frame, failed.span)}
        harmless = _HARMLESS.get(failed.stage) if failed.generator is None else None
        if harmless is not None:
            words = {"message": harmless, "fix": _FIX, "why": _WHOLE + failed.error}
            writer.add("GS605", handler or frame, expr, said, device=device, level="warning", text=words)
            continue
        where, is_open = "" if frame is None else f" at {line_text(frame)}", failed.stage == "open"
        because = "" if is_open else f"The error of the capture{where} was dropped."
        if handler is not None:
            does = "is around" if is_open else "swallowed the error of"
            because = f"This handler {does} the capture{where}."
        what = f"`{expr['expr']}`" if expr else "a capture"
        fate = "began a capture that never ended" if is_open else "failed"
        has_failed = {"message": f"{what} {fate}; the program continued in a corrupted process"}
        place = handler or frame
        writer.add("GS605", place, expr, said, because=because, device=device, certain=not is_open, text=has_failed)


def _cause(writer: Writer, failed: FailedCapture, said: Mapping[str, Any]) -> str | None:
    """Add a finding for the cause of a failed capture.

    Return its code and line as text, or None if the cause is unknown.
    """
    event = failed.guilty
    if event is None or not event.frames:
        return None
    code = code_of_text(failed.error, writer.book) or code_of_failure(event, writer.book.ops)
    frame = event.frames[-1]
    expr = failed.error.partition("\n")[0] if code == "GS607" else text_at(frame, event.span)
    words = {"expr": expr, "value": value_read(code)}
    writer.add(code, frame, words, said, device=failed.device, level="error", region="captured", span=event.span)
    return f"{code} at {line_text(frame)}"
