"""Fields of a step's input that the project declares to stay on the host: `sizes=field("image", keep_on_cpu=True)`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from graphsafe.scan.domain.uses import Memo
from graphsafe.scan.sources.source import Unreadable
from graphsafe.scan.symbols.project import Project

KEPT = re.compile(r"\b(?:keep|stay)_on_(?:cpu|host)\b")


def declared_on_host(project: Project, path: str) -> frozenset[str]:
    """The names of the fields that a file declares so; of one that declares none, those of the files it imports."""
    known: Memo[str, frozenset[str]] = project.files.table("declared on host for", dict)
    return project.files.uses.memo(known, path, lambda: _declared_for(project, path), frozenset())


def _declared_for(project: Project, path: str) -> frozenset[str]:
    own = _declared_in(project, path)
    if own:
        return own
    bound = (project.resolve_dotted(target, path).path for target in project.imports(path))
    return frozenset().union(*(_declared_in(project, other) for other in dict.fromkeys(bound) if other))


def _declared_in(project: Project, path: str) -> frozenset[str]:
    known: Memo[str, frozenset[str]] = project.files.table("declared on host", dict)
    return project.files.uses.memo(known, path, lambda: _declared(project, path), frozenset())


def _declared(project: Project, path: str) -> frozenset[str]:
    try:
        if not project.files.search(path, KEPT):
            return frozenset()
        lines = project.files.source(path).lines
    except (KeyError, Unreadable):
        return frozenset()
    told = [number for number, line in enumerate(lines, 1) if "_on_" in line and KEPT.search(line)]
    file = project.files.index(path)
    if file is None:
        return frozenset()
    spans = {
        *((function.line, function.end_line) for function in file.functions.values()),
        *(span for cls in file.classes.values() for span in cls.fields.values()),
        *(span for bound in file.assigns.values() for span in bound),
    }
    found = {span for span in spans if any(span[0] <= number <= span[1] for number in told)}
    nodes = (project.statement(path, first, last) for first, last in sorted(found))
    return frozenset(name for node in nodes if node is not None for name in _names(node))


def _names(tree: ast.stmt) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from (keyword.arg for keyword in node.keywords if keyword.arg and _is_kept(keyword.value))
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str) and _is_kept(value):
                    yield key.value
        elif isinstance(node, ast.Assign) and _is_kept(node.value):
            for target in node.targets:
                if isinstance(target, ast.Subscript):
                    yield from _keys(target.slice, tree)


def _keys(key: ast.expr, tree: ast.stmt) -> Iterator[str]:
    """What a key may be: itself, or what the loop that binds it goes through."""
    if isinstance(key, ast.Constant) and isinstance(key.value, str):
        yield key.value
    elif isinstance(key, ast.Name):
        for node in ast.walk(tree):
            if isinstance(node, ast.For) and isinstance(node.target, ast.Name) and node.target.id == key.id:
                for part in getattr(node.iter, "elts", ()):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str):
                        yield part.value


def _is_kept(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and any(
        keyword.arg is not None
        and KEPT.fullmatch(keyword.arg) is not None
        and isinstance(keyword.value, ast.Constant)
        and keyword.value.value is True
        for keyword in node.keywords
    )
