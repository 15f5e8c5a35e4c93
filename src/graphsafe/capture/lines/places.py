"""From a child's absolute lines to a report's locations: paths from the working directory, columns in code points.

And paths from a target to its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graphsafe.capture.classify import Span, statement_span
from graphsafe.files import from_here
from graphsafe.report.model import CallSite, Location
from graphsafe.report.source import file_lines

Frame = Mapping[str, Any]


def location(frame: Frame, span: Sequence[int] | None) -> Location:
    """Of the frame's line: the expression that ran where it is known, else the whole statement."""
    path, line = frame["path"], frame["line"]
    place: Span | None = None if span is None else (span[0], span[1], span[2], span[3])
    place = place or statement_span(path, line) or (line, 0, line, 0)
    lines = _lines(path)
    first, column, last, end = place
    return Location(
        path=shown(path),
        line=first,
        column=_code_points(lines, first, column) + 1,
        end_line=last,
        end_column=max(_code_points(lines, last, end), 0) + 1,
        function=frame["function"],
    )


def chain(frames: Sequence[Frame]) -> tuple[CallSite, ...]:
    """From the root to the caller of the function that holds the line."""
    return tuple(CallSite(shown(frame["path"]), frame["line"], frame["function"]) for frame in frames[:-1])


def call_lines(frames: Sequence[Frame]) -> list[str]:
    """`model.py:12 in build_layer`, outermost first, as a report has the calls that led to an error."""
    return [f"{shown(frame['path'])}:{frame['line']} in {frame['function'] or 'module level'}" for frame in frames]


def listed_places(calls: Sequence[Sequence[Frame]], most: int = 3) -> str:
    """`model.py:12, model.py:40`: where these calls were made."""
    found = dict.fromkeys(f"{shown(frames[-1]['path'])}:{frames[-1]['line']}" for frames in calls if frames)
    return ", ".join(list(found)[:most]) or "a line that is not known"


def text_at(frame: Frame, span: Sequence[int] | None, most: int = 60) -> str:
    """The source of the expression, on one line."""
    at = location(frame, span)
    lines = _lines(frame["path"])
    if not 0 < at.line <= len(lines):
        return f"line {at.line}"
    if at.line == at.end_line:
        text = lines[at.line - 1][at.column - 1 : at.end_column - 1]
    else:
        text = " ".join([lines[at.line - 1][at.column - 1 :], *lines[at.line : at.end_line]])
    text = " ".join(text.split()) or lines[at.line - 1].strip()
    return text if len(text) <= most else text[: most - 1] + "…"


def shown(path: str) -> str:
    """Relative to the working directory where it lies below it; a library's from its site-packages."""
    parts = Path(path).parts
    for site in ("site-packages", "dist-packages"):
        if site in parts:
            return "/".join(parts[len(parts) - parts[::-1].index(site) :])
    return from_here(path)


def _lines(path: str) -> Sequence[str]:
    return file_lines(path) or ()


def _code_points(lines: Sequence[str], line: int, column: int) -> int:
    if not 0 < line <= len(lines):
        return column
    return len(lines[line - 1].encode("utf-8", "surrogatepass")[:column].decode("utf-8", "ignore"))


def is_within(path: str, outer: str) -> bool:
    """Whether what `path` names from the target is what `outer` names, or a part of it: `cache.keys[0]` in `cache`."""
    return path == outer or path.startswith((f"{outer}.", f"{outer}["))
