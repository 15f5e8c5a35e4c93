"""Fields of a step's input that stay on the host, according to a declaration in the project: `sizes=field("image",
keep_on_cpu=True)`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from graphsafe.scan.sources.source import Unreadable
from graphsafe.scan.symbols.index import FileIndex, dotted
from graphsafe.scan.symbols.project import Project

KEPT = re.compile(r"_on_(?<=\bkeep_on_|\bstay_on_)(?:cpu|host)\b")
"""Matches the option of a declaration that keeps a field on the host. The pattern begins with fixed characters, so the
search is twenty times as fast."""
KEPT_NAMES = frozenset(("keep_on_cpu", "keep_on_host", "stay_on_cpu", "stay_on_host"))
_ON_HOST = re.compile(r"\b(cpu|host)\b", re.I)
_ON_DEVICE = re.compile(r"\b(gpu|cuda|device)\b", re.I)


@dataclass(frozen=True, slots=True)
class Declared:
    """The names of declared fields."""

    on_host: frozenset[str] = frozenset()
    on_device: frozenset[str] = frozenset()
    "The fields whose declaration has the same form but does not keep them on the host."


def declared_on_host(project: Project, path: str) -> frozenset[str]:
    """Return the fields that a file declares to stay on the host. If it declares none, return the fields that are
    declared in the files that it imports."""

    def found() -> frozenset[str]:
        return declared_in(project, path).on_host or _declared_by_imports(project, path)

    return project.files.table(("fields on the host", path), found)


def _declared_by_imports(project: Project, path: str) -> frozenset[str]:
    bound = (project.resolve_dotted(target, path).path for target in project.imports(path))
    return frozenset().union(*(declared_in(project, other).on_host for other in dict.fromkeys(bound) if other))


def declared_in(project: Project, path: str) -> Declared:
    """Return a file's own declarations of fields."""
    return project.files.table(("declared fields", path), lambda: _declared(project, path))


def is_said_to_be_on_host(project: Project, path: str, line: int) -> bool:
    """Return whether a field's comment says that the field is on the host: `lengths: torch.Tensor # CPU tensor`."""
    lines = project.files.source(path).lines
    _, *comments = lines[line - 1].split("#") if line <= len(lines) else [""]
    for comment in reversed(comments):
        if _ON_DEVICE.search(comment) or _ON_HOST.search(comment):
            return _ON_DEVICE.search(comment) is None
    return False


def _declared(project: Project, path: str) -> Declared:
    try:
        if not project.files.search(path, KEPT):
            return Declared()
        lines = project.files.source(path).lines
    except Unreadable:
        return Declared()
    told = [number for number, line in enumerate(lines, 1) if KEPT.search(line)]
    file = project.files.index(path)
    if file is None:
        return Declared()
    spans = {
        *((function.line, function.end_line) for function in file.functions.values()),
        *(span for cls in file.classes.values() for span in cls.fields.values()),
        *(span for bound in file.assigns.values() for span in bound),
    }
    found = {span for span in spans if any(span[0] <= number <= span[1] for number in told)}
    nodes = (project.files.statement(path, first, last) for first, last in sorted(found))
    declared = [pair for node in nodes if node is not None for pair in _fields(node, project, file)]
    makers = {_maker(value) for _, value in declared if _is_kept(value)}
    on_host = frozenset(name for name, value in declared if _is_kept(value))
    return Declared(on_host, frozenset(name for name, value in declared if _maker(value) in makers) - on_host)


def _texts(name: str, project: Project, file: FileIndex) -> Iterator[str]:
    """Yield the strings in the dict that a file binds to a name at module level."""
    for first, last in file.assigns.get(name, ()):
        bound = getattr(project.files.statement(file.path, first, last), "value", None)
        for value in bound.values if isinstance(bound, ast.Dict) else ():
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.value


def _fields(tree: ast.stmt, project: Project, file: FileIndex) -> Iterator[tuple[str, ast.expr]]:
    """Yield names, each with its declaration: `sizes=field("image")`, `{"sizes": …}`, `declared["sizes"] = …`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from ((keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, value
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Subscript):
                    yield from ((key, node.value) for key in _keys(target.slice, tree, project, file))


def _maker(value: ast.expr) -> str | None:
    """Return the function that makes a declaration: `Config` for `Config.batched("image")`."""
    name = dotted(value.func) if isinstance(value, ast.Call) else None
    return name.rpartition(".")[0] or name if name is not None else None


def _keys(key: ast.expr, tree: ast.stmt, project: Project, file: FileIndex) -> Iterator[str]:
    """Yield the strings that a key may be: a literal, the strings in a table, or the items of the loop that binds the
    key."""
    if isinstance(key, ast.Constant) and isinstance(key.value, str):
        yield key.value
    elif isinstance(key, ast.Name):
        for node in ast.walk(tree):
            if isinstance(node, ast.For) and isinstance(node.target, ast.Name) and node.target.id == key.id:
                for part in getattr(node.iter, "elts", ()):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str):
                        yield part.value
    elif isinstance(key, ast.Subscript) and isinstance(key.value, ast.Name):
        yield from _texts(key.value.id, project, file)


def _is_kept(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and any(
        keyword.arg in KEPT_NAMES and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
        for keyword in node.keywords
    )
