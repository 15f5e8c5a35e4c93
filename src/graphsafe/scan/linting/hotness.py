"""Explains why a function is hot (runs in every step) or not. The explanation of a hot function is a chain of calls
from a root.
"""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from graphsafe.errors import RequestError
from graphsafe.scan.domain.record import Edge, Record
from graphsafe.scan.linting.call_graph import CallGraph, root_of
from graphsafe.scan.roots.factories import factories_of
from graphsafe.scan.roots.hot_roots import HotnessRules
from graphsafe.scan.sources.source import Unreadable, parse_source
from graphsafe.scan.symbols.project import Project
from graphsafe.scan.symbols.project_files import Files

_DEFINITION = rb"^[ \t]*(?:async[ \t]+def|def|class)[ \t]+(%s)\b"


@dataclass(frozen=True, slots=True)
class Definition:
    path: str
    name: str
    "The qualified name, also for functions inside functions: `Outer.method.inner`."
    line: int

    @property
    def ref(self) -> str:
        return f"{self.path}::{self.name}"


@dataclass(frozen=True, slots=True)
class Use:
    """A place where the name of a function occurs, in a call or elsewhere. There, the name may refer to a different
    function."""

    path: str
    line: int
    function: str
    "The surrounding function or class; empty at module level."
    hot: bool


@dataclass(frozen=True, slots=True)
class Hotness:
    """Why a function is hot or not. `root` is None if it is not hot."""

    definition: Definition
    reported: bool
    "Whether the scan reports on the function's file."
    root: Definition | None = None
    why: str = ""
    "The reason why the root is a root."
    chain: Sequence[Edge] = ()
    "The calls that lead from the root to the function, without guarded calls if possible."
    further_roots: int = 0
    pattern: str | None = None
    "The pattern for the `hot-paths` setting, or None for a nested function, which no pattern can name."
    cold: str | None = None
    "The reason why the function does not run in a step."
    is_factory: bool = False
    "Whether the scan reads the function because it returns a step."
    is_marked: bool = False
    "Whether a comment marks the function as cold."
    uses: Sequence[Use] = ()
    "The places that name the function. Places in hot functions come first. This is empty for a hot function."


def definitions(files: Files, root: Path, text: str) -> list[Definition]:
    """Return the functions to which `module:Qual.name`, `path.py:Qual.name`, or the end of a qualified name refers.

    Raises RequestError if there is no such function; its message suggests similar names.
    """
    where, _, name = text.rpartition(":")
    project = Project(files)
    candidates = [
        found
        for path in _holding(files, _DEFINITION % re.escape(name.rpartition(".")[2]).encode())
        if _is_in(files, path, where, root)
        for found in _defined(project, path)
    ]
    matching = [found for found in candidates if _ends_with(found.name, name)]
    if where and any(found.name == name for found in matching):
        matching = [found for found in matching if found.name == name]
    matching = matching or list(_inherited(project, root, where, name))
    if matching:
        # If a name has several definitions (overloads, or the functions of a property), the last one is used.
        return sorted({found.ref: found for found in matching}.values(), key=lambda found: (found.path, found.line))
    if where.endswith(".py") and not any(_is_in(files, path, where, root) for path in files.names):
        raise RequestError(f"--explain-path {text}: {where} is not among the files of this scan's project")
    close = _close(project, name)
    hint = f" (did you mean {' or '.join(close)}?)" if close else ""
    raise RequestError(f"--explain-path {text}: no such function in the project{hint}")


def hotness_of(
    wanted: Iterable[Definition], files: Files, record: Record, paths: HotnessRules, given: Collection[str]
) -> list[Hotness]:
    """Return, from a scan's record, why each of the `wanted` functions is hot or not. `given` are the files on which
    the scan reports."""
    project = Project(files)
    calls = CallGraph(record)
    chains = calls.chains()
    counts = calls.root_counts()
    found = []
    for definition in wanted:
        ref, reported = definition.ref, definition.path in given
        if ref in chains:
            chain = chains[ref]
            root = root_of(chain, ref)
            why, further = record.roots[root], counts[ref] - 1
            found.append(Hotness(definition, reported, _placed(project, root), why, chain, further))
            continue
        facts = project.function_facts(ref)
        module, _ = project.files.names[definition.path]
        cold = paths.cold_because(definition.path, module, facts) if facts is not None else None
        uses = sorted(_uses(project, definition, chains.keys()), key=lambda use: (not use.hot, use.path, use.line))
        pattern = f"{paths.relative(definition.path)}:{definition.name}" if facts is not None else None
        file = project.files.index(definition.path)
        is_factory = file is not None and any(ref == one for one, _ in factories_of(project, file))
        is_marked = facts is not None and facts.mark == "cold"
        found.append(
            Hotness(
                definition, reported, pattern=pattern, cold=cold, is_factory=is_factory, is_marked=is_marked, uses=uses
            )
        )
    return found


def _placed(project: Project, ref: str) -> Definition:
    path, _, name = ref.partition("::")
    facts = project.function_facts(ref)
    return Definition(path, name, facts.line if facts is not None else 1)


# finding names


def _holding(files: Files, pattern: bytes) -> Iterator[str]:
    """Yield the files whose contents match the pattern."""
    searched = re.compile(pattern, re.M)
    for path in files.names:
        if searched.search(files.data(path) or b""):
            yield path


def _defined(project: Project, path: str) -> Iterator[Definition]:
    for around, node in _nodes(project, path):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield Definition(path, f"{around}.{node.name}".lstrip("."), node.lineno)


def _uses(project: Project, definition: Definition, hot: Collection[str]) -> Iterator[Use]:
    name = definition.name.rpartition(".")[2]
    seen = set()
    for path in _holding(project.files, rb"\b%s\b" % re.escape(name).encode()):
        for around, node in _nodes(project, path):
            named = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None
            if named == name and isinstance(node.ctx, ast.Load):  # type: ignore[attr-defined]
                place = (path, node.end_lineno or node.lineno, around)  # type: ignore[attr-defined]
                if place not in seen:
                    seen.add(place)
                    yield Use(*place, f"{path}::{around}" in hot)


def _nodes(project: Project, path: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield every node of a file, with the qualified name of the surrounding function or class."""
    try:
        _, tree = parse_source(project.files.source(path))
    except Unreadable:
        return
    left: deque[tuple[str, ast.AST]] = deque([("", tree)])
    while left:
        around, node = left.popleft()
        yield around, node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            around = f"{around}.{node.name}".lstrip(".")
        left.extend((around, child) for child in ast.iter_child_nodes(node))


def _inherited(project: Project, root: Path, where: str, name: str) -> Iterator[Definition]:
    """Yield the method that a class inherits under this name."""
    owner, _, method = name.rpartition(".")
    if not owner:
        return
    files = project.files
    found: dict[str, None] = {}
    for path in _holding(files, _DEFINITION % re.escape(owner.rpartition(".")[2]).encode()):
        file = files.index(path) if _is_in(files, path, where, root) else None
        for cls in file.classes if file is not None else ():
            ref = project.find_method(f"{path}::{cls}", method) if _ends_with(cls, owner) else None
            if ref is not None:
                found[ref] = None
    for ref in found:
        yield _placed(project, ref)


def _close(project: Project, name: str) -> list[str]:
    """Return similar qualified names, from files that define the last part of the name or a similar one."""
    files = project.files
    last = name.rpartition(".")[2]
    every = re.compile(_DEFINITION % rb"\w+", re.M)
    words = {word.decode() for path in files.names for word in every.findall(files.data(path) or b"")}
    known: set[str] = set()
    for word in get_close_matches(last, words, 3, 0.7):
        for path in _holding(files, _DEFINITION % re.escape(word).encode()):
            known.update(found.name for found in _defined(project, path) if word in found.name.split("."))
    return get_close_matches(name, sorted(known), 3, 0.4)


def _ends_with(qualified: str, name: str) -> bool:
    return qualified == name or qualified.endswith(f".{name}")


def _is_in(files: Files, path: str, where: str, root: Path) -> bool:
    if not where:
        return True
    if where.endswith(".py"):
        shown = Path(path).as_posix()
        wanted = Path(where).as_posix()
        return shown in (Path(where).absolute().as_posix(), (root / where).as_posix()) or shown.endswith(f"/{wanted}")
    return _ends_with(files.names[path][0], where)
