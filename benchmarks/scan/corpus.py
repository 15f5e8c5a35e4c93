"""What the measurements on other people's packages share: unpacking a wheel, scanning it, and reading names alone."""

from __future__ import annotations

import ast
import zipfile
from collections.abc import Iterator
from pathlib import Path

from graphsafe.config import Config, FunctionPattern
from graphsafe.report.model import Finding
from graphsafe.scan.api import scan_paths

READS = frozenset("item tolist cpu numpy synchronize".split())
"Methods whose name alone says that the host waits for the device."
SHAPES = frozenset("nonzero argwhere masked_select unique unique_consecutive bincount".split())
"Methods and functions whose name alone says that an output's size depends on data."


def unpack(wheel: Path, folder: Path, within: tuple[str, ...] = ("",)) -> None:
    """Extract the Python files of a wheel whose names begin with one of `within`, as they would be installed."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".py") and name.startswith(within or "")]
        archive.extractall(folder, names)


def findings_above_note(folder: Path, hot: bool = False) -> list[Finding]:
    """What `graphsafe scan FOLDER` prints with no configuration, less GS4xx (allocations) and GS9xx.

    With `hot`, every function is taken for one that runs in each step, as `hot-paths = ["*"]` says.
    """
    report = scan_paths([folder], Config(root=folder, hot_paths=(FunctionPattern("*"),) if hot else ()))
    return [f for f in report.findings if f.level != "note" and not f.code.startswith(("GS4", "GS9"))]


def named_lines(tree: ast.AST) -> Iterator[int]:
    """Lines that a linter of names alone would report: every call of one of the names, wherever it stands."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name = node.func.attr
        if name in READS | SHAPES or (name == "where" and len(node.args) == 1 and not node.keywords):
            yield node.end_lineno if node.end_lineno is not None and name in READS else node.lineno
