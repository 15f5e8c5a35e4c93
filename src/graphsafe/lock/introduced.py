"""Tells whether a line that made something worse is part of the change since the lock was committed."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

from graphsafe.errors import RequestError
from graphsafe.git.changed_lines import Changes, Lines, changes_since_last_of

Introduced = Callable[[str, int], str]
"""Returns a remark on a line, by its file and number: `; introduced with this change`, or nothing if that is
unknown."""
_LIBRARIES = frozenset(("site-packages", "dist-packages"))
"Folders of installed code. Git does not track it, but it is not new because of that."


def introduced_since(lock: Path) -> Introduced:
    """Return a function that says whether a line was introduced since the commit that last changed the lock."""

    @cache
    def changes() -> Changes | None:
        return changes_since_last_of(lock)

    @cache
    def changed(path: str) -> Lines | None:
        since, absolute = changes(), Path(os.path.realpath(path))
        if since is None or _LIBRARIES & {*absolute.parts} or not absolute.is_relative_to(since.repository.top):
            return None
        try:
            return since.lines([str(absolute)], _content)[str(absolute)]
        except RequestError:
            return None

    def text(path: str, line: int) -> str:
        lines = changed(path)
        if lines is None:
            return ""
        return "; introduced with this change" if any(line in each for each in lines) else "; not in this change"

    return text


def unknown(path: str, line: int) -> str:
    """Return the empty text: nothing is known of any line."""
    return ""


def of_place(introduced: Introduced, place: str) -> str:
    """Return the remark on `cache.py:41`."""
    path, _, line = place.rpartition(":")
    return introduced(path, int(line)) if path and line.isdecimal() else ""


def _content(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes()
    except OSError:
        return None
