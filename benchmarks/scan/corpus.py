"""Shared functions for measurements on published packages: unpack a wheel, scan it, and search for names."""

from __future__ import annotations

import ast
import zipfile
from collections.abc import Iterator
from pathlib import Path

from graphsafe.config import Config, FunctionPattern
from graphsafe.report.model import Finding
from graphsafe.scan.api import scan_paths

READS = frozenset("item tolist cpu numpy synchronize".split())
"Methods that, by their name alone, make the host wait for the device."
SHAPES = frozenset("nonzero argwhere masked_select unique unique_consecutive bincount".split())
"Methods and functions whose output size, by their name alone, depends on data."


def unpack(wheel: Path, folder: Path, within: tuple[str, ...] = ("",)) -> None:
    """Extract the Python files of a wheel whose names begin with one of `within`, as they would be installed."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".py") and name.startswith(within or "")]
        archive.extractall(folder, names)


def findings_above_note(folder: Path, hot: bool = False) -> list[Finding]:
    """Return the errors and warnings of `graphsafe scan FOLDER` without a configuration. GS4xx (allocations) and GS9xx
    are left out.

    With `hot`, every function is hot, as with `hot-paths = ["*"]`.
    """
    report = scan_paths([folder], Config(root=folder, hot_paths=(FunctionPattern("*"),) if hot else ()))
    return [f for f in report.findings if f.level != "note" and not f.code.startswith(("GS4", "GS9"))]


def named_lines(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that a linter would report if it looked only at names: every call of one of the names."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name = node.func.attr
        if name in READS | SHAPES or (name == "where" and len(node.args) == 1 and not node.keywords):
            yield node.end_lineno if node.end_lineno is not None and name in READS else node.lineno
