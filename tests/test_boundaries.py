"""The boundaries of ARCHITECTURE.md that the source itself shows."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "graphsafe"


def modules(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    for folder in folders or ("",):
        for path in sorted((SOURCE / folder).rglob("*.py")):
            yield path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def imports(tree: ast.Module, *, for_types: bool = False) -> set[str]:
    """Names of imported modules; those under `if TYPE_CHECKING:` run never."""
    names: set[str] = set()
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING") and not for_types:
            left += node.orelse
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        left += ast.iter_child_nodes(node)
    return names


def within(names: set[str], *packages: str) -> set[str]:
    return {name for name in names if any(name == p or name.startswith(p + ".") for p in packages)}


def test_scan_and_the_report_never_import_torch() -> None:
    for name, tree in modules("scan", "report"):
        assert not within(imports(tree, for_types=True), "torch", "graphsafe.capture"), name


def test_the_parent_of_a_capture_imports_neither_torch_nor_libcst() -> None:
    script = "import sys, graphsafe.capture.api; sys.exit(str({'torch', 'libcst'} & set(sys.modules) or ''))"
    started = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert started.stderr.strip() == ""


def test_only_the_command_line_prints() -> None:
    for name, tree in modules():
        if name in ("cli.py", "console.py"):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "print", f"{name}:{node.lineno}"


def test_scan_executes_imports_and_unpickles_nothing() -> None:
    for name, tree in modules("scan"):
        assert not within(imports(tree), "importlib", "runpy", "pickle", "marshal", "shelve"), name
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"exec", "eval", "__import__"}, f"{name}:{node.lineno}"


def test_the_checks_are_pure() -> None:
    for name, tree in modules("scan/checks"):
        assert not within(imports(tree), "os", "pathlib", "io", "subprocess", "shutil"), name
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "open", f"{name}:{node.lineno}"


def test_the_probes_name_no_device_implementation() -> None:
    for name, tree in modules("capture/probes"):
        assert not within(
            imports(tree, for_types=True), "graphsafe.capture.device.cuda", "graphsafe.capture.device.sim"
        ), name
        assert not within(imports(tree), "torch.cuda"), name
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("torch.cuda"):
                raise AssertionError(f"{name}:{node.lineno}: {ast.unparse(node)}")
