"""report/ stands by itself: it imports nothing of scan/ or capture/, nor what reads rules."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import graphsafe.report

MODULES = sorted(Path(graphsafe.report.__file__).parent.glob("*.py"))
ALLOWED = ("graphsafe.report.", "graphsafe.errors", "graphsafe.files")


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}:{node.lineno}: a relative import"
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_report_imports_only_itself(path: Path) -> None:
    ours = {name for name in imported(path) if name.startswith("graphsafe")}
    assert {name for name in ours if not name.startswith(ALLOWED)} == set()
