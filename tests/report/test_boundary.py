"""report/ stands by itself: it imports nothing of scan/ or capture/, nor what reads rules."""

from __future__ import annotations

import ast

import pytest
from own_source import modules

ALLOWED = ("graphsafe.report.", "graphsafe.errors.", "graphsafe.files.")


def imported(name: str, tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}:{node.lineno}: a relative import"
            names.add(node.module or "")
    return names


@pytest.mark.parametrize(("name", "tree"), [pytest.param(*one, id=one[0]) for one in modules("report")])
def test_report_imports_only_itself(name: str, tree: ast.Module) -> None:
    ours = {one for one in imported(name, tree) if one.startswith("graphsafe")}
    assert {one for one in ours if not f"{one}.".startswith(ALLOWED)} == set()
