"""Module-level tables that a function of the same file fills. The function adds each class or function that it
decorates or receives as an argument."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.project import Binding, Project

MAX_ENTRIES = 40
"If a table has more entries than this, the entry that a step uses counts as unknown."


def entries_of(project: Project, path: str, table: str) -> list[Binding]:
    """Return the classes and functions that decorators and other functions of a table's file have added to the
    table."""
    found: list[Binding] = []
    for filler in _fillers(project, path, table):
        at, call = f"@{filler}".encode(), re.compile(rf"^{filler}\(([^()]+)\)", re.M)
        for other in sorted(project.files.names):
            data = project.files.data(other) or b""
            if at in data:
                found += _decorated(project, other, filler, f"{path}::{filler}")
            if b"\n%s(" % filler.encode() in data:
                found += _entered(project, other, call, f"{path}::{filler}")
    return found if len(found) <= MAX_ENTRIES else []


def _fillers(project: Project, path: str, table: str) -> Iterator[str]:
    """Yield the functions of a file that store a parameter in the table. The parameter may belong to an inner
    function."""
    file = project.files.index(path)
    stores = project.files.search(path, re.compile(rf"^[ \t]+{table}\[[^\]\n]+\] = (\w+)$", re.M))
    for name in file.functions if file is not None and stores else ():
        node = project.function_node(f"{path}::{name}") if "." not in name else None
        parameters = {argument.arg for argument in inside(node, ast.arg)} if node is not None else set()
        if any(
            isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and target.value.id == table
            for store in (inside(node, ast.Assign) if node is not None else ())
            if isinstance(store.value, ast.Name) and store.value.id in parameters
            for target in store.targets
        ):
            yield name


def _decorated(project: Project, path: str, decorator: str, ref: str) -> Iterator[Binding]:
    file = project.files.index(path)
    binding = project.resolve(file, decorator) if file is not None else None
    if file is None or binding is None or binding.ref != ref:
        return
    for name, cls in file.classes.items():
        if decorator in cls.decorators:
            yield Binding("class", name, path)
    for name, function in file.functions.items():
        if function.owner is None and decorator in function.decorators:
            yield Binding("function", name, path)


def _entered(project: Project, path: str, call: re.Pattern[str], ref: str) -> Iterator[Binding]:
    """Yield the classes and functions that calls at module level pass to a filler: `register("name", Planner)`."""
    file = project.files.index(path)
    filler = ref.partition("::")[2]
    binding = project.resolve(file, filler) if file is not None else None
    if file is None or binding is None or binding.ref != ref:
        return
    for given in project.files.search(path, call):
        for name in given.split(","):
            entry = project.resolve(file, name.rpartition("=")[2].strip())
            if entry is not None and entry.kind in ("class", "function"):
                yield entry
