"""Converts a child's absolute lines into a report's locations, whose paths are relative and whose columns are counted
in code points. Also compares the paths of pieces of state with each other, and names the memory that operations use."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from graphsafe.capture.shared.classify import statement_span
from graphsafe.files import from_here
from graphsafe.report.model import CallSite, Location, Span
from graphsafe.report.source import file_lines

_LONGEST = 60
"The largest number of characters of an expression that is quoted."


def location(frame: CallSite, span: Span | None) -> Location:
    """Return the location of the expression that ran on a frame's line. Without a span, return the location of the
    whole statement."""
    path, line = frame.path, frame.line
    first, column, last, end = span or statement_span(path, line) or (line, 0, line, 0)
    lines = _lines(path)
    return Location(
        path=from_here(path),
        line=first,
        column=_code_points(lines, first, column) + 1,
        end_line=last,
        end_column=max(_code_points(lines, last, end), 0) + 1,
        function=frame.function,
    )


def chain(frames: Sequence[CallSite]) -> tuple[CallSite, ...]:
    """Return the calls from the outermost one to the call of the function that contains the line."""
    return tuple(CallSite(from_here(frame.path), frame.line, frame.function) for frame in frames[:-1])


def line_text(line: CallSite) -> str:
    """Return a line as reports show it: `model.py:12`."""
    return f"{shown(line.path)}:{line.line}"


def at_line(frames: Sequence[CallSite]) -> str:
    """Return ` at model.py:12` for the line that caused an event, which is the line of the last frame. The result is
    empty if there are no frames."""
    return f" at {line_text(frames[-1])}" if frames else ""


def call_lines(frames: Sequence[CallSite]) -> list[str]:
    """Return the calls that led to an error, outermost first, as reports show them: `model.py:12 in build_layer`."""
    return [f"{line_text(frame)} in {frame.function or 'module level'}" for frame in frames]


def listed_places(calls: Sequence[Sequence[CallSite]]) -> str:
    """Return the places of these calls as a string: `model.py:12, model.py:40`."""
    found = dict.fromkeys(line_text(frames[-1]) for frames in calls if frames)
    return ", ".join(list(found)[:3]) or "a line that is not known"


def text_at(frame: CallSite, span: Span | None) -> str:
    """Return the source of an expression, on one line."""
    at = location(frame, span)
    lines = _lines(frame.path)
    if not 0 < at.line <= len(lines):
        return f"line {at.line}"
    if at.line == at.end_line:
        text = lines[at.line - 1][at.column - 1 : at.end_column - 1]
    else:
        text = " ".join([lines[at.line - 1][at.column - 1 :], *lines[at.line : at.end_line]])
    text = " ".join(text.split()) or lines[at.line - 1].strip()
    return text if len(text) <= _LONGEST else _shortened(text)


def _shortened(text: str) -> str:
    """Shorten an expression, but keep its outermost call or index, because the finding is about this call or index:
    `torch.cat(…).nonzero()`."""
    with suppress(SyntaxError, ValueError, RecursionError):
        node: ast.expr | None = ast.parse(text, mode="eval").body
        node = node.func if isinstance(node, ast.Call) else node
        if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.value, (ast.Name, ast.Attribute)):
            last = text.encode()[node.value.end_col_offset :].decode()
            if len(last) <= _LONGEST // 2:
                return f"{text[: _LONGEST - 1 - len(last)]}…{last}"
    return text[: _LONGEST - 1] + "…"


def shown(path: str) -> str:
    """Return a path as texts show it: relative to the working directory, or to the site-packages of a library.

    For a library's file, the result does not depend on where the library is installed. To open the file, use the path
    of a `Location`.
    """
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
    """Return whether `path` is the same state as `outer`, or a part of it: `cache.keys[0]` is in `cache`."""
    return path == outer or path.startswith((f"{outer}.", f"{outer}["))


_FROM = " from element "


def memory_name(path: str, offset: object) -> str:
    """Return the name of the memory at a path. `offset` is the number of the first element, which may be symbolic."""
    return f"{path}{_FROM}{offset}"


def path_of(name: str) -> str | None:
    """Return the path in a name of memory, or None if the name has no path."""
    return name.rpartition(_FROM)[0] or None
