"""The files of a project: their module names, their indexes, and their statements on demand.

A file is read when something asks for it, never before; what cannot be read is kept as a problem and answers "unknown".
"""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from symtable import symtable
from types import MappingProxyType
from typing import TypeVar

from graphsafe.config import is_project_root
from graphsafe.scan.domain.uses import Fact, Uses
from graphsafe.scan.sources.source import Source, Unreadable, parse_source, read, read_bytes
from graphsafe.scan.symbols.index import FileIndex, build_index, statements_by_line

Table = TypeVar("Table")

MAX_SOURCES = 64
MAX_NODE_LINES = 30_000
"Lines of the statements used last; a line of syntax takes about 1.2 KB."
MAX_TREE_LINES = 8_000
"Lines of the whole files used last: what is hot in a file is mostly read right after the file itself."


class Files:
    def __init__(self, paths: Iterable[Path], buffers: Mapping[str, bytes] = MappingProxyType({})) -> None:
        """`buffers`: what an editor holds of files, in place of what is saved, if anything is."""
        self._buffers = buffers
        self.uses = Uses()
        "Where those who ask note what they have used."
        self.problems: dict[str, Unreadable] = {}
        self.indexes: dict[str, FileIndex | None] = {}
        self.recall: Callable[[str], FileIndex | None] | None = None
        "Where an index may be known already."
        self._names: dict[str, tuple[str, bool]] = {}
        self._modules: dict[str, list[str]] = {}
        self._sources: OrderedDict[str, Source] = OrderedDict()
        self.held: Mapping[str, bytes] = {}
        "What files hold, where somebody needs all of them more than once."
        self.rewritten: set[str] = set()
        "Files with syntax newer than the running Python: their sources are those that newer.py made."
        self._nodes: OrderedDict[tuple[str, str, int, int], ast.stmt | None] = OrderedDict()
        self._node_lines = 0
        self._trees: OrderedDict[str, Mapping[tuple[int, int], ast.stmt]] = OrderedDict()
        "Path -> the statements of the module and of its classes, by first and last line."
        self._tree_lines = 0
        self._tables: dict[str, object] = {}
        self._found: dict[Fact, list[str]] = {}
        "What files were searched for, and what was found."
        packages: dict[Path, Path | None] = {}
        for path in paths:
            name, is_package = module_name(path, packages)
            self._names[str(path)] = (name, is_package)
            # torch is what the rulebook knows, even where its source lies in the project.
            if name.partition(".")[0] != "torch":
                self._modules.setdefault(name, []).append(str(path))

    @property
    def names(self) -> Mapping[str, tuple[str, bool]]:
        """Path -> module name, and whether it is a package."""
        return self._names

    @property
    def paths(self) -> Iterable[str]:
        return self._names

    @property
    def modules(self) -> Mapping[str, Sequence[str]]:
        """Dotted name -> the files that have it."""
        return self._modules

    def table(self, name: str, make: Callable[[], Table]) -> Table:
        """What is read off all files together, made once; who looks something up there notes that as a fact."""
        if name not in self._tables:
            self._tables[name] = self.uses.aside(make)
        return self._tables[name]  # type: ignore[return-value]

    def index(self, path: str) -> FileIndex | None:
        """None where the file cannot be read; `problems` says why. All that the file holds counts as used."""
        self.uses.note("text", path)
        return self.indexed(path)

    def overview(self, path: str) -> FileIndex | None:
        """The same, for who looks for roots or speaks about lines that were read."""
        self.uses.note("overview", path)
        return self.indexed(path)

    def indexed(self, path: str) -> FileIndex | None:
        """The same, for who notes what is used of it."""
        if path not in self.indexes:
            known = self.recall(path) if self.recall is not None else None
            self.indexes[path] = known or self._build(path)
        return self.indexes[path]

    def _build(self, path: str) -> FileIndex | None:
        name, is_package = self._names.get(path) or module_name(Path(path), {})
        try:
            original = self._read(path)
            source, tree = parse_source(original)
        except Unreadable as problem:
            self.problems[path] = problem
            return None
        if source is not original:
            self.rewritten.add(path)
        self._keep(path, source)
        self._keep_tree(path, tree)
        return build_index(source, tree, name, is_package)

    def _keep_tree(self, path: str, tree: ast.Module) -> None:
        self._trees[path] = statements_by_line(tree.body)
        self._tree_lines += _length(self._trees[path])
        while self._tree_lines > MAX_TREE_LINES:
            self._tree_lines -= _length(self._trees.popitem(last=False)[1])

    def forget_trees(self) -> None:
        """Hardly any of the statements that are kept will be asked for again."""
        self._nodes.clear()
        self._trees.clear()
        self._node_lines = self._tree_lines = 0

    def check(self, path: str) -> None:
        """Note it among the problems if a file cannot be read, at a fraction of what an index costs."""
        if path in self.indexes:
            return
        try:
            text = self._read(path).text
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                symtable(text, path, "exec")
        except Exception:
            # The parser decides: some of these texts are only newer than the running Python.
            self.index(path)

    def data(self, path: str) -> bytes | None:
        """What a file holds, for who looks for certain words; None, and a problem, where it cannot be opened."""
        self.uses.note("words", path)
        if path in self.held:
            return self.held[path]
        if path in self._buffers:
            return self._buffers[path]
        try:
            return read_bytes(path)
        except Unreadable as problem:
            self.problems[path] = problem
            return None

    def _read(self, path: str) -> Source:
        return read(Path(path), self._buffers.get(path))

    def search(self, path: str, pattern: re.Pattern[str]) -> list[str]:
        """What a pattern of one group or none finds in a file's text. Raises as `source` does."""
        fact = ("search", path, pattern.pattern, pattern.flags)
        self.uses.note(*fact)
        if fact not in self._found:
            self._found[fact] = pattern.findall(self.shown(path).text)
        return self._found[fact]

    def source(self, path: str) -> Source:
        """The source whose lines the index counts. Raises KeyError or Unreadable for a file that cannot be read."""
        self.uses.note("text", path)
        return self.shown(path)

    def shown(self, path: str) -> Source:
        """The same, for what is said about lines of it: that these were read is a fact of its own."""
        if path in self._sources:
            self._sources.move_to_end(path)
            return self._sources[path]
        if path in self.problems:
            raise KeyError(path)
        source = self._read(path)
        if path in self.rewritten:
            source, _ = parse_source(source)
        return self._keep(path, source)

    def _keep(self, path: str, source: Source) -> Source:
        self._sources[path] = source
        if len(self._sources) > MAX_SOURCES:
            self._sources.popitem(last=False)
        return source

    def statement(self, path: str, first: int, last: int) -> ast.stmt | None:
        """The statement on these lines; None where it does not stand alone."""
        key = ("lines", path, first, last)
        node: ast.stmt | None
        self.uses.note(*key)
        if key in self._nodes:
            self._nodes.move_to_end(key)
            return self._nodes[key]
        try:
            if path in self._trees:
                self._trees.move_to_end(path)
            parsed = self._trees.get(path, {}).get((first, last))
            node = parsed if parsed is not None else self.shown(path).slice_tree(first, last)
        except (SyntaxError, ValueError, IndexError, KeyError, RecursionError, MemoryError, Unreadable):
            node = None
        self._nodes[key] = node
        self._node_lines += last - first + 1
        while self._node_lines > MAX_NODE_LINES:
            (_, _, start, end), _ = self._nodes.popitem(last=False)
            self._node_lines -= end - start + 1
        return node


def _length(statements: Mapping[tuple[int, int], ast.stmt]) -> int:
    return max((last for _, last in statements), default=0)


def build(path: Path, module: str, is_package: bool) -> FileIndex | None:
    """The index of a file that needs no rewriting; None for others."""
    try:
        original = read(path)
        source, tree = parse_source(original)
    except Unreadable:
        return None
    return build_index(source, tree, module, is_package) if source is original else None


def module_name(path: Path, packages: dict[Path, Path | None]) -> tuple[str, bool]:
    """The dotted name under which `path` is imported, and whether it is a package's `__init__`."""
    is_package = path.name == "__init__.py"
    parts = [] if is_package else [path.stem]
    outermost = outermost_package(path.parent, packages)
    if outermost is not None:
        parts = [*path.parent.relative_to(outermost.parent).parts, *parts]
    return ".".join(parts), is_package


def outermost_package(folder: Path, known: dict[Path, Path | None]) -> Path | None:
    """The package that a folder is in through all packages between, or None. `known` keeps the answers.

    Inside a package a folder is one without an `__init__.py` too; at the top of a project it is no more than a folder.
    """
    unknown: list[Path] = []
    while folder not in known and folder not in unknown[-1:]:
        unknown.append(folder)
        folder = folder.parent
    for inner in reversed(unknown):
        is_regular = os.path.isfile(inner / "__init__.py")
        above = known.get(inner.parent)
        if above is not None and not is_regular and is_project_root(inner.parent):
            above = None
        known[inner] = above or (inner if is_regular else None)
    return known[unknown[0] if unknown else folder]
