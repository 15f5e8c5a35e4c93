"""The boundaries of ARCHITECTURE.md that the source itself shows."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from functools import cache

from own_source import SOURCE, children, modules


def statements(tree: ast.Module, *, for_types: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports of a module, including those inside functions. Imports under `if TYPE_CHECKING:` never run."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        if isinstance(node, ast.If) and not for_types and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            left += node.orelse
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        left += children(node)


@cache
def imports(tree: ast.Module, *, for_types: bool = False) -> frozenset[str]:
    """Return the names of imported modules, and the names that are imported from them."""
    names: set[str] = set()
    for node in statements(tree, for_types=for_types):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names)


def dotted(name: str) -> str:
    """Return the name by which a module is imported."""
    return f"graphsafe/{name}".removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def within(names: Set[str], *packages: str) -> set[str]:
    return {name for name in names if any(name == p or name.startswith(p + ".") for p in packages)}


def test_scan_and_the_report_never_import_torch() -> None:
    for name, tree in modules("scan", "report"):
        assert not within(imports(tree, for_types=True), "torch", "graphsafe.capture"), name


def test_the_parent_of_a_capture_imports_neither_torch_nor_libcst() -> None:
    script = "import sys, graphsafe.capture.api; sys.exit(str({'torch', 'libcst'} & set(sys.modules) or ''))"
    started = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert started.stderr.strip() == ""


IN_THE_CHILD = (
    "graphsafe.capture.child",
    "graphsafe.capture.plan.child",
    "graphsafe.capture.device",
    "graphsafe.run.child",
    "graphsafe.run.entry",
    "graphsafe.run.doors",
)
IN_THE_PARENT = (
    "graphsafe.capture.parent",
    "graphsafe.capture.plan.parent",
    "graphsafe.capture.api",
    "graphsafe.run.parent",
)
IN_THE_USERS_PROCESS = ("graphsafe.guard", "graphsafe.pytest_plugin")
"The modules that watch a block of the running program, or simulate a device for a test."
OUTSIDE_OF_CAPTURE = ("graphsafe.commands", "graphsafe.api", "graphsafe.lsp", "graphsafe.report")


def test_the_parent_of_a_capture_imports_no_child_and_a_child_no_parent() -> None:
    """Imports for types are not allowed either. Modules that both use are outside both folders and import neither of
    them."""
    for name, tree in modules():
        imported = imports(tree, for_types=True)
        module = {dotted(name)}
        in_child, in_parent = within(module, *IN_THE_CHILD), within(module, *IN_THE_PARENT)
        if within(module, *IN_THE_USERS_PROCESS):
            imported -= within(imported, "graphsafe.capture.device")
        if module == {"graphsafe.run.watching"}:  # reports on its own process
            imported -= within(imported, "graphsafe.run.child", "graphsafe.run.parent")
        if not in_child:
            assert not within(imported, *IN_THE_CHILD), name
        if not (in_parent or within(module, *OUTSIDE_OF_CAPTURE, "graphsafe.capture.plan.call")):
            assert not within(imported, *IN_THE_PARENT), name


def test_a_device_and_the_probes_import_nothing_that_is_built_on_them() -> None:
    for name, tree in modules("capture/device"):
        assert not within(imports(tree, for_types=True), "graphsafe.capture.child", "graphsafe.capture.plan"), name
    for name, tree in modules("capture/child"):
        assert not within(imports(tree, for_types=True), "graphsafe.capture.plan"), name


def test_only_the_command_line_prints() -> None:
    for name, tree in modules(holding="print("):
        if name in ("cli.py", "console.py", "entry.py"):
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


def test_hazards_and_state_open_no_files() -> None:
    for name, tree in modules("scan/hazards", "scan/state"):
        assert not within(imports(tree), "os", "pathlib", "io", "subprocess", "shutil"), name
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "open", f"{name}:{node.lineno}"


def test_rule_codes_are_data() -> None:
    """scan emits events, and rules match them. Its source names only the codes GS90x, which are about the report
    itself."""
    for name, tree in modules("scan"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
                code = re.search(r"[A-Z]{2,}\d{3}", node.value)
                assert code is None or (name == "scan/linting/lint.py" and code[0].startswith("GS90")), name


def test_the_probes_name_no_device_implementation() -> None:
    for name, tree in modules("capture/child", "capture/plan/child"):
        imported = imports(tree, for_types=True)
        assert not within(imported, "graphsafe.capture.device.cuda", "graphsafe.capture.device.sim"), name
    for name, tree in modules("capture/child/probes"):
        assert not within(imports(tree), "torch.cuda"), name
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("torch.cuda"):
                raise AssertionError(f"{name}:{node.lineno}: {ast.unparse(node)}")


def rows_of_scan() -> list[list[str]]:
    """Return the rows of the picture of scan's packages in ARCHITECTURE.md, from the bottom up."""
    text = (SOURCE.parents[1] / "ARCHITECTURE.md").read_text(encoding="utf-8")
    picture = text.partition("## scan\n")[2].split("```")[1]
    packages = {path.parent.name for path in (SOURCE / "scan").glob("*/__init__.py")}
    rows = [[name for name in line.split("  ") if name.strip() in packages] for line in picture.strip().splitlines()]
    found = [[name.strip() for name in row] for row in rows if row][::-1]
    assert sorted(name for row in found for name in row) == sorted(packages)
    return found


def test_packages_of_scan_import_only_what_the_picture_has_below_them() -> None:
    """Imports for types count as well: models and hazards are given a frame, which is below them."""
    rows = rows_of_scan()
    height = {name: number for number, row in enumerate(rows) for name in row}
    for name, tree in modules("scan"):
        package = name.split("/")[1]
        for imported in within(imports(tree, for_types=True), "graphsafe.scan"):
            other = (imported.split(".") + [""] * 2)[2]
            if package in height and other in height and other != package:
                assert height[other] < height[package], f"{name} imports {imported}"


def imported_modules() -> dict[str, Set[str]]:
    """Return the modules that each module imports, for types and inside functions too."""
    trees = {dotted(name): tree for name, tree in modules()}

    def imported(tree: ast.Module) -> Iterator[str]:
        for node in statements(tree, for_types=True):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
                yield inner if inner in trees or isinstance(node, ast.Import) else str(node.module)

    return {name: trees.keys() & set(imported(tree)) - {name} for name, tree in trees.items()}


def in_circles(importers: Mapping[str, Set[str]]) -> set[str]:
    """Return the modules that import themselves through other modules, and the modules that import such modules."""
    left = dict(importers)
    while free := [name for name, others in left.items() if not left.keys() & others]:
        for name in free:
            del left[name]
    return set(left)


def test_no_modules_import_each_other() -> None:
    """Imports form no circle. Imports inside functions and imports for types count as well."""
    assert in_circles(imported_modules()) == set()


def test_no_packages_import_each_other() -> None:
    """The packages of graphsafe, each as a whole, and the modules beside them form no circle either."""

    def room(name: str) -> str:
        return ".".join(name.split(".")[:2])

    rooms: dict[str, set[str]] = {}
    for name, others in imported_modules().items():
        rooms.setdefault(room(name), set()).update({room(one) for one in others} - {room(name)})
    assert in_circles(rooms) == set()


def test_no_two_modules_of_scan_have_one_name() -> None:
    names = [name.rpartition("/")[2] for name, _ in modules("scan") if not name.endswith("__init__.py")]
    assert len(names) == len(set(names))


def test_rooms_stay_small() -> None:
    """A module of more than 400 lines, or a folder of more than 25 modules, lacks a noun."""
    lines = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in SOURCE.rglob("*.py")}
    assert [file for file, count in lines.items() if count > 400] == []
    modules_in = Counter(file.parent for file in lines)
    assert [folder for folder, count in modules_in.items() if count > 25] == []
