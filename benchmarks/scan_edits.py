"""What a scan costs after an edit, and whether it says what a scan without a cache says.

    python benchmarks/scan_edits.py FOLDER|WHEEL [COUNT]

The Python files are copied into a project of their own, which is scanned once. Then COUNT edits (30) to one file each,
drawn with a fixed seed: scanned with the cache and without, and taken back. Exits with 1 if two reports differ.
"""

from __future__ import annotations

import ast
import json
import random
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from scan_identical import project_of
from scan_speed import SCAN, measured

from graphsafe.scan.index import first_line

SEED = 11


def scan(project: Path, *options: str) -> tuple[float, dict[str, object]]:
    cost, text = measured(*SCAN, ".", "-j1", *options, cwd=project)
    report: dict[str, object] = json.loads(text)
    del report["created"]
    return cost.cpu, report


def comment(lines: list[str], tree: ast.Module, draw: random.Random) -> None:
    """Between two statements of the module."""
    lines.insert(first_line(draw.choice(tree.body[1:])) - 1, "# A comment.")


def constant(lines: list[str], tree: ast.Module, draw: random.Random) -> None:
    lines += ["", "A_NEW_CONSTANT = 1"]


def function(lines: list[str], tree: ast.Module, draw: random.Random) -> None:
    lines += ["", "", "def a_new_function(x):", "    return x.item()"]


def statement(lines: list[str], tree: ast.Module, draw: random.Random) -> None:
    """At the beginning of a function."""
    inside(lines, tree, draw, "a_new_name = 1")


def wait(lines: list[str], tree: ast.Module, draw: random.Random) -> None:
    inside(lines, tree, draw, "__import__('torch').cuda.synchronize()")


def inside(lines: list[str], tree: ast.Module, draw: random.Random, text: str) -> None:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    own_lines = [node for node in functions if node.body[0].lineno > node.lineno]
    if own_lines:
        first = draw.choice(own_lines).body[0]
        lines.insert(first_line(first) - 1, " " * first.col_offset + text)


EDITS: tuple[Callable[[list[str], ast.Module, random.Random], None], ...] = (
    comment,
    constant,
    function,
    statement,
    wait,
)


def main() -> int:
    draw = random.Random(SEED)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    costs: dict[str, list[float]] = {}
    different = 0
    with tempfile.TemporaryDirectory() as folder:
        project = project_of(sys.argv[1], Path(folder))
        files = [path for path in sorted(project.rglob("*.py")) if path.stat().st_size > 500]
        cold, _ = scan(project)
        warm, _ = scan(project)
        print(f"filling the cache {cold:.1f} s of CPU, nothing changed {warm:.1f} s")
        for number in range(count):
            edit, path = EDITS[number % len(EDITS)], draw.choice(files)
            before = path.read_bytes()
            lines = before.decode().split("\n")
            edit(lines, ast.parse(before), draw)
            path.write_text("\n".join(lines), encoding="utf-8")
            cost, found = scan(project)
            _, expected = scan(project, "--no-cache")
            path.write_bytes(before)
            costs.setdefault(edit.__name__, []).append(cost)
            different += found != expected
            same = "the same" if found == expected else "DIFFERENT"
            print(f"{edit.__name__:10} {path.relative_to(project)}: {cost:.1f} s, {same}", flush=True)
    for name, spent in costs.items():
        quick = sum(cost < warm + 1 for cost in spent)
        print(f"{name:10} {statistics.median(spent):6.1f} s in the middle; {quick} of {len(spent)} within a second")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
