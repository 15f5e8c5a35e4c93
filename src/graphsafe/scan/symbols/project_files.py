"""The files of a project: their module names, their indexes, and the statements that are needed.

A file is read when it is first needed. If it cannot be read, a problem is recorded for it.
"""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from symtable import symtable
from types import MappingProxyType
from typing import TypeVar

from graphsafe.config import is_project_root
from graphsafe.scan.sources.documents import Documents, any_contains
from graphsafe.scan.sources.source import Source, Unreadable, parse_source, read, read_bytes
from graphsafe.scan.symbols.blocks import statements_by_line
from graphsafe.scan.symbols.index import FileIndex, build_index

Table = TypeVar("Table")
Place = tuple[str, str]
"A path, and what was found in the file."

MAX_SOURCES = 64
MAX_NODE_LINES = 30_000
"""Apart from whole trees, recently used statements with at most this many lines in total stay in memory. A line of
syntax takes about 1.2 KB."""
MAX_TREE_LINES = 40_000
"""Whole syntax trees are kept for files with at most this many lines in total, so that their functions are parsed only
once."""


_Tree = tuple[int, Mapping[tuple[int, int], ast.stmt]]
"The number of lines of a file, and the statements of the module and of its classes, by first and last line."


class Files:
    """The Python files of a project, each read when it is first needed."""

    def __init__(
        self,
        paths: Iterable[Path],
        buffers: Mapping[str, bytes] = MappingProxyType({}),
        documents: Documents | None = None,
    ) -> None:
        """`buffers` are unsaved contents of files in an editor. `documents` is None if the documents are not known:
        outside of a project, or if there are too many."""
        self._buffers = buffers
        self.documents = documents
        self.problems: dict[str, Unreadable] = {}
        self.indexes: dict[str, FileIndex | None] = {}
        names: dict[str, tuple[str, bool]] = {}
        modules: dict[str, list[str]] = {}
        self.names: Mapping[str, tuple[str, bool]] = names
        "Path -> module name, and whether the file is a package's `__init__`."
        self.modules: Mapping[str, Sequence[str]] = modules
        "Dotted name -> the files that have this name."
        self._sources: OrderedDict[str, Source] = OrderedDict()
        self._contents: dict[str, bytes | None] = {}
        """The contents of the files that were read. They are kept because most files are searched a dozen times. The
        content is None if a file cannot be opened."""
        self.rewritten: set[str] = set()
        "Files with syntax newer than the running Python. newer.py made their sources."
        self._nodes: OrderedDict[tuple[str, int, int], ast.stmt | None] = OrderedDict()
        self._node_lines = 0
        self._trees: OrderedDict[str, _Tree] = OrderedDict()
        self._tree_lines = 0
        self._tables: dict[Hashable, object] = {}
        self._found: dict[tuple[str, re.Pattern[str]], list[str]] = {}
        "Path and pattern -> the matches."
        packages: dict[Path, Path | None] = {}
        every = frozenset(paths)
        for path in sorted(every):
            name, is_package = module_name(path, packages)
            names[str(path)] = (name, is_package)
            # The rulebook describes torch, so torch's source is not read even if it is in the project. If a folder
            # contains both `x.py` and `x/__init__.py`, Python imports the package.
            if name.partition(".")[0] != "torch" and path.with_suffix("") / "__init__.py" not in every:
                modules.setdefault(name, []).append(str(path))
        self._folders = {folder.name for inner in {path.parent for path in every} for folder in (inner, *inner.parents)}
        "The names of the folders that contain files, directly or in folders below."
        self._last_names = {path.parent.name if path.stem == "__init__" else path.stem for path in every}
        "The last part of each module's name."

    def in_plain_folder(self, module: str, importer: str) -> str | None:
        """Return the file that `import a.b` in `importer` imports if `a` is not a regular package: `a/b.py` in the
        nearest folder around the importer that contains this file. Return None without such a file. Python imports `a`
        as a namespace package."""
        first, _, rest = module.partition(".")
        if not rest or first not in self._folders or first == "torch":
            return None
        if module.rpartition(".")[2] not in self._last_names:
            # If no module has this last name, the name usually refers to a class or function, and no file has to be
            # searched.
            return None
        inside = module.replace(".", os.sep)
        for folder in Path(importer).parents:
            for path in (f"{folder / inside}.py", str(folder / inside / "__init__.py")):
                if path in self.names:
                    return path
        return None

    def table(self, name: Hashable, make: Callable[[], Table]) -> Table:
        """Return a table, or another fact, that is made once from all files."""
        if name not in self._tables:
            self._tables[name] = make()
        return self._tables[name]  # type: ignore[return-value]

    def found_by(self, name: str, find: Callable[[bytes], Iterable[tuple[str, str]]]) -> Mapping[str, list[Place]]:
        """Return a table that is made once from the contents of all files. The table maps each key that `find` yields
        to pairs of a path and a value."""

        def make() -> Mapping[str, list[Place]]:
            found: dict[str, list[Place]] = {}
            for path in self.names:
                for key, value in find(self.data(path) or b""):
                    found.setdefault(key, []).append((path, value))
            return found

        return self.table(name, make)

    def any_contains(self, path: str, pattern: re.Pattern[bytes], *words: bytes) -> bool:
        """Return whether some file contains a match of a pattern, as the function `any_contains` does. The file at
        `path` is searched first, because it is the most likely one to contain a match."""
        return any_contains((self.data(one) or b"" for one in (path, *self.names)), pattern, words)

    def index(self, path: str) -> FileIndex | None:
        """Return the definitions in a file. Return None if the file cannot be read; `problems` then says why."""
        if path not in self.indexes:
            self.indexes[path] = self._build(path)
        return self.indexes[path]

    def _build(self, path: str) -> FileIndex | None:
        name, is_package = self.names.get(path) or module_name(Path(path), {})
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
        lines = tree.body[-1].end_lineno or 0 if tree.body else 0
        self._trees[path] = lines, statements_by_line(tree.body)
        self._tree_lines += lines
        while self._tree_lines > MAX_TREE_LINES:
            self._tree_lines -= self._trees.popitem(last=False)[1][0]

    def check(self, path: str) -> None:
        """Record a problem if a file is not legal Python. This check takes only a fraction of the time that an index
        takes."""
        if path in self.indexes:
            return
        try:
            text = self._read(path).text
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                symtable(text, path, "exec")
        except Exception:
            # The parser checks these files again, because some of them are legal in a newer version of Python.
            self.index(path)

    def data(self, path: str) -> bytes | None:
        """Return the bytes of a file. If it cannot be opened, record a problem and return None."""
        if path not in self._contents:
            try:
                self._contents[path] = self._buffers[path] if path in self._buffers else read_bytes(path)
            except Unreadable as problem:
                self.problems[path] = problem
                self._contents[path] = None
        return self._contents[path]

    def _read(self, path: str) -> Source:
        data = self.data(path)
        if data is None:
            raise self.problems[path]
        return read(Path(path), data)

    def search(self, path: str, pattern: re.Pattern[str]) -> list[str]:
        """Return all matches of a pattern in a file. The pattern has at most one group. Raises as `source` does."""
        key = (path, pattern)
        if key not in self._found:
            self._found[key] = pattern.findall(self.source(path).text)
        return self._found[key]

    def lines_with(self, path: str, pattern: re.Pattern[str]) -> list[int]:
        """Return the numbers of the lines of a file that match a pattern."""
        return [number for number, line in enumerate(self.source(path).lines, 1) if pattern.search(line)]

    def source(self, path: str) -> Source:
        """Return the source to which the line numbers of the index refer. Raises Unreadable if the file cannot be
        read."""
        if path in self._sources:
            self._sources.move_to_end(path)
            return self._sources[path]
        if path in self.problems:
            raise self.problems[path]
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
        """Return the statement on these lines, or None if they contain more than one statement."""
        node: ast.stmt | None
        if path in self._trees:
            self._trees.move_to_end(path)
            node = self._trees[path][1].get((first, last))
            if node is not None:
                return node
        key = (path, first, last)
        if key in self._nodes:
            self._nodes.move_to_end(key)
            return self._nodes[key]
        try:
            node = self.source(path).slice_tree(first, last)
        except (SyntaxError, ValueError, IndexError, KeyError, RecursionError, MemoryError, Unreadable):
            node = None
        self._nodes[key] = node
        self._node_lines += last - first + 1
        while self._node_lines > MAX_NODE_LINES:
            (_, start, end), _ = self._nodes.popitem(last=False)
            self._node_lines -= end - start + 1
        return node


def build(path: Path, module: str, is_package: bool) -> FileIndex | None:
    """Return the index of a file, or None if it cannot be read without rewriting."""
    try:
        original = read(path)
        source, tree = parse_source(original)
    except Unreadable:
        return None
    return build_index(source, tree, module, is_package) if source is original else None


def module_name(path: Path, packages: dict[Path, Path | None]) -> tuple[str, bool]:
    """Return the dotted name under which `path` is imported, and whether it is a package's `__init__`."""
    is_package = path.name == "__init__.py"
    parts = [] if is_package else [path.stem]
    outermost = outermost_package(path.parent, packages)
    if outermost is not None:
        parts = [*path.parent.relative_to(outermost.parent).parts, *parts]
    return ".".join(parts), is_package


def outermost_package(folder: Path, known: dict[Path, Path | None]) -> Path | None:
    """Return the outermost package around a folder, or None. `known` stores the results.

    Inside a package, each folder counts as a package, even without an `__init__.py`. At the top of a project, a folder
    without an `__init__.py` is not a package.
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
