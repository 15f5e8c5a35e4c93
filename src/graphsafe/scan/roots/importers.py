"""Chooses the files at which reading begins if the report is about only a few files of a project. Roots in the chosen
files may call the given files.

A text search finds the import statements, so that few other files need to be parsed. In a large project, nearly every
file imports every other file indirectly, so only the nearest roots are considered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from os.path import commonpath

from graphsafe.scan.symbols.overrides import subclasses_in
from graphsafe.scan.symbols.project import Project, is_module_base
from graphsafe.scan.symbols.project_files import Files

SMALL = 300
"In a project with at most this many files, all files that import the given files, directly or indirectly, are read."
MAX_NEAREST = 8
"In a large project, reading begins at the given files and at no more than this many other files."

_IMPORT = re.compile(
    rb"[ \t]*(?:from[ \t]+(\.*)((?:\w[\w.]*)?)[ \t]+import[ \t]*(\([^)]{0,8000}\)|[^\n]*)|import[ \t]+([^\n]+))"
)
"""Matches an import. It reads at most 8,000 bytes of a list of names in brackets, since the closing bracket may be
missing."""
_NAME = re.compile(rb"(?:^|[(,\n])[ \t]*([\w.*]+)")
_OPERATOR = re.compile(rb"""(?:custom_op\(|op_name\s*=|\.impl\()\s*["'](?:\w+::)?(\w+)""")
"Matches the names of operators. A file may call an operator by its name, without an import."


@dataclass(frozen=True, slots=True)
class ReadingPlan:
    """The files to read if the report is about only a few given files."""

    candidates: tuple[str, ...]
    """The files in the order of reading: the given files, files with a possible root that import them directly or
    indirectly, and the files on the way between the two."""
    scope: frozenset[str]
    "The candidates, and all files through which they import the given files."
    is_complete: bool
    "Whether the candidates include every file that may lead to the given files."


def reading_plan(
    files: Files, given: Sequence[str], sources: Mapping[str, bytes], holds_root: Callable[[bytes], object]
) -> ReadingPlan:
    """Choose the files at which reading begins for the `given` files. `sources` holds the contents of all files of the
    project."""
    climb = _ImportGraph(files, sources)
    if len(files.names) <= SMALL:
        leading = climb.all({*given, *_bases(files, given)})
        return ReadingPlan(
            tuple(path for path in dict.fromkeys([*given, *files.names]) if path in leading), leading, True
        )
    callers = (path for path in _callers(files, given, sources) if holds_root(sources[path]))
    return climb.nearest(given, callers, holds_root)


class _ImportGraph:
    """Finds the files that import a file or run an operator of this file, directly or through other files."""

    def __init__(self, files: Files, sources: Mapping[str, bytes]) -> None:
        self._files = files
        self._sources = sources
        self._importers: dict[str, list[str]] = {}
        "Module -> the files that import it."
        modules = {module for module, _ in files.names.values()}
        for path, data in sources.items():
            imported = {*_imported(data, *files.names[path])}
            plain = {files.in_plain_folder(module, path) for module in imported - modules} - {None}
            for module in imported & modules | {files.names[inside][0] for inside in plain if inside is not None}:
                self._importers.setdefault(module, []).append(path)

    def all(self, given: Iterable[str]) -> frozenset[str]:
        seen = dict.fromkeys(given)
        level = list(seen)
        while level:
            level = [path for path in dict.fromkeys(self._above(level)) if path not in seen]
            seen.update(dict.fromkeys(level))
        return frozenset(seen)

    def nearest(
        self, given: Sequence[str], callers: Iterable[str], holds_root: Callable[[bytes], object]
    ) -> ReadingPlan:
        """Follow importers up to the nearest files that contain a root. Calls from more distant files pass through
        these files, so importers are followed further only if few roots are near."""
        seen = dict.fromkeys(given)
        starts: list[str] = []

        def unseen(paths: Iterable[str]) -> list[str]:
            return [path for path in dict.fromkeys(paths) if path not in seen]

        level = unseen([*callers, *self._above(given)])
        while level and len(starts) < MAX_NEAREST:
            seen.update(dict.fromkeys(level))
            rooted = {path for path in level if holds_root(self._sources[path])}
            starts += sorted(rooted, key=lambda path: (-len(commonpath([path, given[0]])), path))
            level = unseen(self._above([path for path in level if path not in rooted])) or unseen(self._above(starts))
        scope = frozenset(seen).difference(starts[MAX_NEAREST:])
        between = sorted(scope.difference(given, starts))
        return ReadingPlan((*given, *starts[:MAX_NEAREST], *between), scope, False)

    def _above(self, level: Sequence[str]) -> Iterator[str]:
        names = self._files.names
        for path in level:
            if path in names:
                yield from self._importers.get(names[path][0], ())
        operators = {name for path in level for name in _OPERATOR.findall(self._sources.get(path, b""))}
        for path, data in self._sources.items() if operators else ():
            if b"torch.ops" in data and any(operator in data for operator in operators):
                yield path


def _bases(files: Files, given: Iterable[str]) -> Iterator[str]:
    """Yield the files of base classes. Code may call a method on a value of which only the base class is known."""
    project = Project(files)
    for path in given:
        file = files.index(path)
        for name in file.classes if file is not None else ():
            yield from (base.partition("::")[0] for base in project.mro(f"{path}::{name}") if "::" in base)


def _callers(files: Files, given: Iterable[str], sources: Mapping[str, bytes]) -> Iterator[str]:
    """Yield the files that name a base of the classes in the given files and call a method that these classes override.

    Files that derive other classes from the base are left out, because they call their own methods. Torch modules are
    left out too, because their steps are roots.
    """
    project = Project(files)
    calls: dict[str, set[bytes]] = {}
    own: set[str] = set()
    for path in given:
        file = files.index(path)
        for facts in file.classes.values() if file is not None else ():
            order = project.mro(f"{path}::{facts.name}")
            if any(is_module_base(base) for base in order):
                continue
            for base in order[1:]:
                inherited = project.class_facts(base) if "::" in base else None
                if inherited is not None:
                    overridden = facts.methods.keys() & inherited.methods.keys()
                    called = calls.setdefault(inherited.name.rpartition(".")[2], set())
                    called.update(f".{name}(".encode() for name in overridden - {"__init__"})
                    own.add(base.partition("::")[0])
    for path, data in sources.items():
        named = {
            base for base, called in calls.items() if base.encode() in data and any(call in data for call in called)
        }
        if named and (path in own or calls.keys().isdisjoint(base for base, _ in subclasses_in(data))):
            yield path


def _imported(data: bytes, module: str, is_package: bool) -> Iterator[str]:
    for dots, base, names, plain in _statements(data):
        if plain:
            for name in _NAME.findall(plain):
                # `import a.b.c` also runs `a` and `a.b`.
                parts = name.decode("utf-8", "replace").split(".")
                yield from accumulate(parts, lambda parent, part: f"{parent}.{part}")
            continue
        target = base.decode("utf-8", "replace")
        if dots:
            parts = module.split(".")
            keep = len(parts) - len(dots) + (1 if is_package else 0)
            target = ".".join([*parts[: max(keep, 0)], *([target] if target else [])])
        # Unlike `import a.b.c`, `from a.b import c` binds no name of a parent package.
        yield target
        for name in _NAME.findall(names):
            yield f"{target}.{name.decode('utf-8', 'replace')}"


def _statements(data: bytes) -> Iterator[tuple[bytes, bytes, bytes, bytes]]:
    """Yield the matches of `_IMPORT` at the beginning of lines. A search for the word `import` comes first, because
    this takes only a fifth of the time."""
    end = 0
    while (word := data.find(b"import", end)) >= 0:
        line = data.rfind(b"\n", end, word) + 1
        match = _IMPORT.match(data, line) if line or not end else None  # each line is tried once
        end = word + len(b"import")
        if match is not None:
            end = max(end, match.end())
            dots, base, names, plain = match.groups(b"")
            yield dots, base, names, plain
