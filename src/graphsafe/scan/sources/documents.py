"""The texts of a project that may name its code without being Python: configurations, scripts and documents."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from contextlib import suppress

from graphsafe.files import beginning, saved

MAX_BYTES = 1_000_000
"""The size in bytes of the largest document that is searched. Larger documents are usually data, such as vocabularies
or tables of measurements."""
MAX_DOCUMENTS = 10_000
"The largest number of documents that are searched. If a project has more, most of them are data, and none is searched."
_OWN = b'"graphsafe/'
"The prefix of the schema's name in graphsafe's own reports."


class Documents:
    """The documents of a project, whose contents are read when they are first searched."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = tuple(filter(_is_document, paths))
        self._contents: dict[str, bytes] = {}

    def any_contains(self, pattern: re.Pattern[bytes], words: Collection[bytes]) -> bool:
        """Return whether a document contains a match of a pattern, as the function `any_contains` does. Unreadable
        documents have no match."""
        return any_contains(map(self._data, self.paths), pattern, words)

    def _data(self, path: str) -> bytes:
        if path not in self._contents:
            self._contents[path] = saved(path, MAX_BYTES) or b""
        return self._contents[path]


def any_contains(contents: Iterable[bytes], pattern: re.Pattern[bytes], words: Collection[bytes]) -> bool:
    """Return whether some content contains a match of a pattern. Callers ensure that every match contains one of the
    words. A search for words is much faster, so only contents with such a word are searched for the pattern."""
    return any(any(word in data for word in words) and pattern.search(data) is not None for data in contents)


def _is_document(path: str) -> bool:
    """Return whether a file is small enough and not a report of graphsafe. A report names code, and changes with each
    scan that writes it."""
    with suppress(OSError):
        if os.stat(path).st_size <= MAX_BYTES:
            return not path.endswith(".json") or _OWN not in beginning(path)
    return False
