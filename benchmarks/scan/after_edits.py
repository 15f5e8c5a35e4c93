"""What a scan costs after an edit, and whether it says what a scan without a cache says.

    python benchmarks/scan/after_edits.py FOLDER|WHEEL [COUNT]

The Python files are copied into a project of their own, which is scanned once. Then COUNT edits (30) to one file each,
drawn with a fixed seed, one on top of the other, each scanned with the cache and without. Every second edit is to a
function that the scan has read, one with a finding, or to its class; every twelfth adds a file. Exits with 1 if two
reports differ.
"""

from __future__ import annotations

import ast
import json
import random
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from identical_reports import project_of
from speed import SCAN, Cost, measured

from graphsafe.scan.symbols.index import first_line

SEED = 11


def scan(project: Path, *options: str) -> tuple[Cost, str]:
    """What it costs and says."""
    return measured(*SCAN, ".", "-j1", *options, cwd=project)


def comment(lines: list[str], tree: ast.Module, draw: random.Random) -> None:
    """Between two statements of the module."""
    lines.insert(first_line(draw.choice(tree.body[1:])) - 1, "# A comment.")


def constant(lines: list[str], tree: ast.Module, draw: random.Random) -> None:
    lines += ["", "A_NEW_CONSTANT = 1"]


def new_function(lines: list[str], tree: ast.Module, draw: random.Random) -> None:
    lines += ["", "", "def a_new_function(x):", "    return x.item()"]


def statement(lines: list[str], tree: ast.Module, draw: random.Random) -> None:
    """At the beginning of a function."""
    insert(lines, draw.choice(functions(tree)), "a_new_name = 1")


def functions(tree: ast.AST) -> list[ast.FunctionDef]:
    """Those whose bodies have lines of their own."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [node for node in found if node.body[0].lineno > node.lineno]


def insert(lines: list[str], function: ast.FunctionDef, text: str) -> None:
    first = function.body[0]
    lines.insert(first_line(first) - 1, " " * first.col_offset + text)


def hot_statement(lines: list[str], function: ast.FunctionDef) -> None:
    insert(lines, function, "a_new_name = 1")


def hot_wait(lines: list[str], function: ast.FunctionDef) -> None:
    insert(lines, function, "__import__('torch').cuda.synchronize()")


def hot_tensor(lines: list[str], function: ast.FunctionDef) -> None:
    insert(lines, function, "import torch; torch.ones(3, device='cuda').tolist()")


def hot_loss(lines: list[str], function: ast.FunctionDef) -> None:
    """A statement less: what it did for others is missing now."""
    last = function.body[-1]
    lines[first_line(last) - 1 : last.end_lineno] = [" " * last.col_offset + "pass"]


def hot_result(lines: list[str], function: ast.FunctionDef) -> None:
    """It may return nothing now."""
    insert(lines, function, "if len(str(1)) == 3: return None")


def hot_attribute(lines: list[str], function: ast.FunctionDef) -> None:
    """An attribute more, where there is an object."""
    names = [argument.arg for argument in function.args.args[:1] if argument.arg == "self"]
    insert(lines, function, ".".join([*names, "a_new_name = 1"]))


def hot_method(lines: list[str], function: ast.FunctionDef) -> None:
    """A function more in front of it: a method, where it is one."""
    indent = " " * function.col_offset
    first = first_line(function) - 1
    lines[first:first] = [f"{indent}def a_new_method(self, x):", f"{indent}    return x.item()", ""]


EDITS: tuple[Callable[[list[str], ast.Module, random.Random], None], ...] = (comment, constant, new_function, statement)
HOT_EDITS: tuple[Callable[[list[str], ast.FunctionDef], None], ...] = (
    hot_statement,
    hot_result,
    hot_wait,
    hot_attribute,
    hot_tensor,
    hot_loss,
    hot_method,
)


def hot_functions(project: Path, report: dict[str, Any]) -> list[tuple[Path, str]]:
    """Functions with a finding: file and qualified name."""
    places = [finding["location"] for finding in report["findings"] if finding["location"]["function"]]
    found = {(project / place["path"], place["function"]): None for place in places}
    return [(path, name) for path, name in found if named(ast.parse(path.read_bytes()), name) is not None]


def named(tree: ast.AST, qualified: str) -> ast.FunctionDef | None:
    """The function of that name; None where its body has no lines of its own."""
    node: ast.AST | None = tree
    for name in qualified.split("."):
        inside = ast.iter_child_nodes(node) if node is not None else ()
        node = next((inner for inner in inside if getattr(inner, "name", None) == name), None)
    return node if isinstance(node, ast.FunctionDef) and node in functions(node) else None


def main() -> int:
    draw = random.Random(SEED)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    costs: dict[str, list[float]] = {}
    different = 0
    with tempfile.TemporaryDirectory() as folder:
        project = project_of(sys.argv[1], Path(folder))
        files = [path for path in sorted(project.rglob("*.py")) if path.stat().st_size > 500]
        cold, _ = scan(project)
        hot = hot_functions(project, json.loads(measured(*SCAN, ".", "-j1", "--format", "json", cwd=project)[1]))
        warm = scan(project)[0].cpu
        print(f"filling {cold.cpu:.1f} s of CPU, {cold.peak:.0f} MB; nothing changed {warm:.1f} s", flush=True)
        for number in range(count):
            is_hot, kind = number % 2, number // 2
            path, function = draw.choice(hot) if is_hot else (draw.choice(files), "")
            if number % 12 == 10:
                shutil.copyfile(path, path.with_name(f"{path.stem}_copy.py"))
                path = path.with_name(f"{path.stem}_copy.py")
            text = path.read_text(encoding="utf-8")
            lines = text.split("\n")
            tree = ast.parse(text)
            edited = named(tree, function) if is_hot else None
            if number % 12 == 10:
                name = "new_file"
            elif edited is not None:
                hot_edit = HOT_EDITS[kind % len(HOT_EDITS)]
                hot_edit(lines, edited)
                name = hot_edit.__name__
            else:
                edit = EDITS[kind % len(EDITS)]
                edit(lines, tree, draw)
                name = edit.__name__
            path.write_text("\n".join(lines), encoding="utf-8")
            cost, found = scan(project)
            _, expected = scan(project, "--no-cache")
            costs.setdefault(name, []).append(cost.cpu)
            different += found != expected
            same = "the same" if found == expected else "DIFFERENT"
            print(f"{name:13} {path.relative_to(project)}: {cost.cpu:.1f} s, {cost.peak:.0f} MB, {same}", flush=True)
    for name, spent in costs.items():
        quick = sum(cost < warm + 1 for cost in spent)
        print(f"{name:13} {statistics.median(spent):6.1f} s in the middle; {quick} of {len(spent)} within a second")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
