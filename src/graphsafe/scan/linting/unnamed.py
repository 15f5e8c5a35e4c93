"""Finds definitions that nothing in a project names: no code, no configuration, no script and no document.

A definition is a function or class at the top of a file. Imports alone do not count, except in an `__init__.py`, which
exports what it imports. Tests do not count, because they are no steps. If a definition is named only by definitions
that are themselves unnamed, it is unnamed too. Names are compared as text, so two definitions with the same name count
as one.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import takewhile

from graphsafe.scan.domain.record import AROUND_GRAPHS, ENTRY_POINT, TARGET
from graphsafe.scan.linting.call_graph import CallGraph
from graphsafe.scan.roots.assumed_roots import ENTRY, OPERATOR
from graphsafe.scan.roots.hot_roots import BY_LIBRARY, HOT_PATH, HOT_PATH_AROUND, MARKED_HOT
from graphsafe.scan.sources.documents import Documents
from graphsafe.scan.symbols.project_files import Files

Definition = tuple[str, str]
"The path of a file, and the name of a function or class at its top."
_TOP_LINE = re.compile(rb"^(?:(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)|(@)|[^\s#)\]}])", re.M)
"Matches the beginning of a statement at the top of a file: a definition, a decorator, or any other statement."
_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+[\w.]+[ \t]+import[ \t]*(?:\([^)]*\)|(?:[^\n\\]|\\\n)*)|import[ \t](?:[^\n\\]|\\\n)*)", re.M
)
_EXPORTS = re.compile(rb"^__all__\b[^\n]*?=[ \t]*(?:[\[(][^\])]*)?", re.M)
_IN_TESTS = re.compile(r"(^|/)((unit_?)?tests?|testing)/|(^|/)(test_\w+|\w+_test|conftest)\.\w+$")
_STRING = re.compile(rb"""["']([\w./-]+)["']""")
_NAMED_ELSEWHERE = (HOT_PATH, HOT_PATH_AROUND, MARKED_HOT, ENTRY_POINT, AROUND_GRAPHS, BY_LIBRARY, OPERATOR, ENTRY)
"""Reasons for roots that the user names, that a library or an engine calls by a known name, or that are entered in a
table."""
_OTHERS = 256
"Files whose top lines stay in memory."


class Namings:
    def __init__(self, files: Files, documents: Documents) -> None:
        self._files = files
        self._documents = documents
        self._named: dict[Definition, bool] = {}
        self._tops = lru_cache(_OTHERS)(self._top_lines)
        top = os.path.commonpath(files.names) if files.names else ""
        self._naming = [path for path in files.names if not _IN_TESTS.search(os.path.relpath(path, top))]
        self._nearest: dict[str, Sequence[str]] = {}
        "Folder -> the files, beginning with those nearby."

    def is_named(self, path: str, name: str) -> bool:
        """Return whether code that is itself named, or any document, names a definition."""
        asked = path, name
        if asked in self._named:
            return self._named[asked]
        waiting, seen = [asked], {asked}
        while waiting:
            for user in self._users(*waiting.pop()):
                if user is None or self._named.get(user, False):
                    self._named[asked] = True
                    return True
                if user not in seen and user not in self._named:
                    seen.add(user)
                    waiting.append(user)
        self._named.update(dict.fromkeys(seen, False))
        return False

    def _users(self, path: str, name: str) -> Iterator[Definition | None]:
        """Yield the definitions that name this one, and None for a name elsewhere: at the top of a file, in an export
        or in a document."""
        words = {name.encode(), *self._registered_as(path, name)}
        for other in self._nearest_first(path):
            data = self._files.data(other) or b""
            if any(word in data for word in words):
                for user in self._users_in(other, data, words):
                    if user != (path, name):
                        yield user
        if self._documents.any_contains(_whole(words), words):
            yield None

    def _users_in(self, path: str, data: bytes, words: Set[bytes]) -> Iterator[Definition | None]:
        imports = [match.span() for match in _IMPORT.finditer(data)]
        exports = [match.span() for match in _EXPORTS.finditer(data)]
        waiting, seen = [*words], {*words}
        while waiting:
            word = waiting.pop()
            for match in _whole((word,)).finditer(data):
                at = match.start()
                line = data[data.rfind(b"\n", 0, at) + 1 : at]
                if b"#" in line and b'"' not in line and b"'" not in line:
                    continue  # a comment
                if _within(at, exports):
                    yield None
                elif not _within(at, imports):
                    yield self._around(path, at)
                elif path.endswith("__init__.py"):
                    yield None
                elif (alias := re.compile(rb"\s+as\s+(\w+)").match(data, match.end())) and alias[1] not in seen:
                    seen.add(alias[1])
                    waiting.append(alias[1])

    def _around(self, path: str, at: int) -> Definition | None:
        """Return the definition around a position in a file, or None at the top of the file."""
        starts, names = self._tops(path)
        number = bisect_right(starts, at) - 1
        while 0 <= number < len(names) and names[number] == b"@":
            number += 1
        found = names[number] if 0 <= number < len(names) else b""
        return (path, found.decode()) if found else None

    def _top_lines(self, path: str) -> tuple[Sequence[int], Sequence[bytes]]:
        """Return the position of each statement at the top of a file, and the name that it defines: `@` for a
        decorator, nothing for other statements."""
        found = [*_TOP_LINE.finditer(self._files.data(path) or b"")]
        return [match.start() for match in found], [match[1] or match[2] or b"" for match in found]

    def _registered_as(self, path: str, name: str) -> Iterator[bytes]:
        """Yield the strings that the decorators of a definition are given, by which a registry may know it."""
        starts, names = self._tops(path)
        data = self._files.data(path) or b""
        for number, each in enumerate(names):
            if each == name.encode():
                first = number
                while first and names[first - 1] == b"@":
                    first -= 1
                yield from _STRING.findall(data[starts[first] : starts[number]])

    def _nearest_first(self, path: str) -> Sequence[str]:
        """Return all files that count, beginning with those in nearby folders: most definitions are used there."""
        folder = os.path.dirname(path)
        if folder not in self._nearest:
            self._nearest[folder] = sorted(self._naming, key=lambda other: _shared(folder, other))
        return self._nearest[folder]


def _shared(folder: str, path: str) -> int:
    """Return a sort key that puts files first which share more of their path with a folder."""
    parts = zip(folder.split(os.sep), path.split(os.sep), strict=False)
    return -sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], parts))


def _whole(words: Iterable[bytes]) -> re.Pattern[bytes]:
    return re.compile(rb"(?<![\w-])(?:%s)(?![\w-])" % b"|".join(map(re.escape, sorted(words))))


def _within(at: int, spans: Sequence[tuple[int, int]]) -> bool:
    return any(first <= at < end for first, end in spans)


class UnnamedCode:
    """The functions to which only unnamed definitions lead."""

    def __init__(self, roots: Mapping[str, str], calls: CallGraph, namings: Namings | None) -> None:
        """`roots` gives the reason for each root. Without `namings`, no code is unnamed."""
        self._roots = roots
        self._calls = calls
        self._namings = namings
        self._known: dict[str, bool] = {}

    def holds(self, ref: str) -> bool:
        """Return whether every root that leads to a function is in an unnamed definition."""
        if self._namings is None:
            return False
        if ref not in self._known:
            self._known[ref] = self._is_unnamed(ref)
        return self._known[ref]

    def _is_unnamed(self, ref: str) -> bool:
        waiting, seen = [ref], {ref}
        is_reached = False
        while waiting:
            one = waiting.pop()
            if one in self._roots:
                is_reached = True
                if self._is_named(one):
                    return False
            callers = {caller for caller, _ in self._calls.callers(one)} - seen
            seen |= callers
            waiting += callers
        return is_reached

    def _is_named(self, root: str) -> bool:
        why = self._roots[root]
        path, _, name = root.partition("::")
        if why in _NAMED_ELSEWHERE or why.startswith(TARGET) or not name or self._namings is None:
            return True
        return self._namings.is_named(path, name.partition(".")[0])
