"""graphsafe's own source, parsed once for all tests that look at it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "graphsafe"


@cache
def texts() -> Mapping[str, str]:
    """Return the text of each module by its path below `SOURCE`, in order."""
    files = sorted(SOURCE.rglob("*.py"))
    return {path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8") for path in files}


@cache
def parsed(name: str) -> ast.Module:
    return ast.parse(texts()[name])


def modules(*folders: str, holding: str = "") -> Iterator[tuple[str, ast.Module]]:
    """Yield the modules whose text contains `holding`, each with its path. Without folders, search all modules."""
    within_folders = tuple(f"{folder}/" for folder in folders) or ("",)
    for name, text in texts().items():
        if name.startswith(within_folders) and holding in text:
            yield name, parsed(name)


def children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements in a node, and the handlers and cases that contain further statements. Expressions are left
    out."""
    return (one for one in ast.iter_child_nodes(node) if isinstance(one, (ast.stmt, ast.ExceptHandler, ast.match_case)))
