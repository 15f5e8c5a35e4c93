"""The line of code that a finding is about, with carets under the span."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate

from graphsafe.report.model import Location
from graphsafe.report.text import Paint, cells, printable

_TAB = 4
_CUT = "..."


def code_frame(location: Location, lines: Sequence[str] | None, width: int, paint: Paint, style: str) -> list[str]:
    """Return lines of at most `width` cells. Of a span of several lines, the first is shown. The result is empty if the
    line does not exist.

    A line that is too long loses its indentation, then the parts far from the span.
    """
    if lines is None or not 0 < location.line <= len(lines):
        return []
    gutter = f"{location.line} | "
    margin = paint("blue", f"{' ' * (len(gutter) - 2)}|")
    text, start, end = _placed(lines[location.line - 1], location)
    code, before, marked = _cropped(text, start, end, max(width - len(gutter), 20))
    caret = f"{margin} {' ' * before}{paint(style, '^' * marked)}"
    return [margin, paint("blue", gutter.rstrip()) + f" {code}".rstrip(), caret]


def _placed(line: str, location: Location) -> tuple[str, int, int]:
    """Return the line without tabs, and where the span begins and ends in it, in characters."""
    raw_end = location.end_column - 1 if location.end_line == location.line else len(line.rstrip())
    starts = []
    text = ""
    for character in line:
        starts.append(len(text))
        text += " " * (_TAB - len(text) % _TAB) if character == "\t" else printable(character)
    starts.append(len(text))
    start = starts[min(location.column - 1, len(line))]
    end = starts[min(raw_end, len(line))]
    return text, start, max(end, start + 1)


def _cropped(text: str, start: int, end: int, room: int) -> tuple[str, int, int]:
    """Return the part of `text` to show, the cells before the carets, and the number of carets."""
    if cells(text) > room:
        indent = min(len(text) - len(text.lstrip()), start)
        text, start, end = text[indent:], start - indent, end - indent
    at = [0, *accumulate(map(cells, text))]
    first, last = 0, len(text)
    if at[-1] > room:
        from_cell = min(_window(at[start], at[end], room), at[-1] - room)
        if from_cell:
            first = bisect_left(at, from_cell + len(_CUT))
        if at[-1] > from_cell + room:
            last = max(bisect_right(at, from_cell + room - len(_CUT)) - 1, start + 1)
    left, right = _CUT if first else "", _CUT if last < len(text) else ""
    marked = at[min(end, last)] - at[start]
    return left + text[first:last] + right, len(left) + at[start] - at[first], max(marked, 1)


def _window(start: int, end: int, room: int) -> int:
    """Return the first cell to show of a line that is too long: 0 if the span is visible from there, else a little
    before the span."""
    if end + len(_CUT) <= room:
        return 0
    near = max(start - room // 4, 0)
    to_see_all = end - room + 2 * len(_CUT)
    return near if to_see_all > start - len(_CUT) else max(near, to_see_all)
