"""The lines that a location points into."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Callable, Sequence
from functools import lru_cache

from graphsafe.files import read_regular

Lines = Callable[[str], "Sequence[str] | None"]
"""The lines of a file by the path that a location gives; None where it cannot be read."""
_MOST = 16_000_000
"""Bytes; a larger file is shown without its lines."""


def read_lines(path: str) -> Sequence[str] | None:
    """The lines of a Python file without their ends, None if it cannot be read."""
    try:
        return lines_in(read_regular(path, _MOST))
    except OSError:
        return None


def lines_in(content: bytes) -> Sequence[str] | None:
    """Only `\\n`, `\\r\\n` and `\\r` end a line, as for Python; `str.splitlines` would also count form feeds.

    None for an encoding that there is not.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        text = content.decode(encoding, errors="replace")
    except (SyntaxError, LookupError, ValueError):
        return None
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return tuple(lines[:-1] if lines[-1] == "" else lines)


file_lines: Lines = lru_cache(maxsize=256)(read_lines)
"""The same, kept for the rest of the process: what shows a report reads many lines of few files."""


def file_line(path: str, number: int) -> str:
    """A line, from 1, of a Python file; empty where there is none."""
    return line_of(file_lines(path), number)


def line_of(lines: Sequence[str] | None, number: int) -> str:
    return lines[number - 1] if lines is not None and 0 < number <= len(lines) else ""
