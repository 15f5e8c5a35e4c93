"""Reads the lines of code to which a location points."""

from __future__ import annotations

import linecache
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from graphsafe.files import encoding_of, read_regular

Lines = Callable[[str], "Sequence[str] | None"]
"""Returns the lines of a file, given a location's path, or None if the file cannot be read."""
T = TypeVar("T")
_MOST_KEPT = 256
_MOST = 16_000_000
"""The lines of a file with more bytes than this are not shown."""


def read_lines(path: str) -> Sequence[str] | None:
    """Return the lines of a Python file without their line ends, or None if the file cannot be read."""
    try:
        return lines_in(read_regular(path, _MOST))
    except (OSError, ValueError):  # a path with a null character raises ValueError
        return _cell_lines(path)


def _cell_lines(path: str) -> Sequence[str] | None:
    """Return the lines of a notebook's cell. Python gives the cell the name of a file that does not exist."""
    for name in (path, os.path.abspath(path), os.path.basename(path)):
        if (entry := linecache.cache.get(name)) is not None and len(entry) == 4:
            return tuple(line.rstrip("\n") for line in entry[2])
    return None


def lines_in(content: bytes) -> Sequence[str] | None:
    """Split content into lines. Return None if its encoding is unknown.

    Only `\n`, `\r\n` and `\r` end a line, as in Python. `str.splitlines` would also split at form feeds.
    """
    try:
        text = content.decode(encoding_of(content), errors="replace")
    except (SyntaxError, LookupError, ValueError):
        return None
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return tuple(lines[:-1] if lines[-1] == "" else lines)


def file_lines(path: str) -> Sequence[str] | None:
    """Return the same lines as `read_lines`. They are kept until the file changes, because formats read many lines of
    few files.

    The absolute path, the time and the size identify the state of a file. The language server and `--watch` need this,
    because they keep running when files and the working directory change.
    """
    try:
        full = os.path.abspath(path)
        stat = os.stat(full)
    except (OSError, ValueError):
        return read_lines(path)
    return _lines_of(full, (stat.st_mtime_ns, stat.st_size, stat.st_ino))


@lru_cache(maxsize=256)
def _lines_of(path: str, _stamp: tuple[int, int, int]) -> Sequence[str] | None:
    return read_lines(path)


def kept_by_lines(make: Callable[[Sequence[str]], T]) -> Callable[[str], T]:
    """Return a function that applies `make` to the lines of a file and keeps the result until the file changes.

    The function takes a path. If the file cannot be read, `make` gets no lines.
    """
    kept: OrderedDict[str, tuple[Sequence[str] | None, T]] = OrderedDict()

    def made(path: str) -> T:
        lines = file_lines(path)
        known = kept.get(path)
        if known is None or known[0] is not lines:
            known = kept[path] = (lines, make(lines or ()))
            if len(kept) > _MOST_KEPT:
                kept.popitem(last=False)
        return known[1]

    return made


def lines_inside(folder: Path) -> Lines:
    """Return a function that reads only Python files in `folder`, for the paths in a saved report.

    Anybody may have written the report. Its paths must not make this process open a device or a file on a server, or
    copy a secret into a published page. Links that lead out of the folder are not followed.
    """
    root = folder.resolve()

    def lines(path: str) -> Sequence[str] | None:
        try:
            # The path itself is checked first, because resolving a network path would already access the other machine.
            named = Path(os.path.abspath(root / path))
            if named.suffix not in (".py", ".pyi") or not named.is_relative_to(root):
                return None
            real = named.resolve()
        except (OSError, ValueError, RuntimeError):  # the path has a null character, or links form a circle
            return None
        return file_lines(str(real)) if real.is_relative_to(root) and real.suffix in (".py", ".pyi") else None

    return lines


def file_line(path: str, number: int) -> str:
    """Return a line of a Python file, counted from 1, or "" if it does not exist."""
    return line_of(file_lines(path), number)


def line_of(lines: Sequence[str] | None, number: int) -> str:
    return lines[number - 1] if lines is not None and 0 < number <= len(lines) else ""
