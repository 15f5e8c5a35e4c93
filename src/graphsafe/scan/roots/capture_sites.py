"""Functions that are read because they contain a capture, or pass a function to a capture."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from graphsafe.scan.hazards.graph_syntax import calls_in, captures_in
from graphsafe.scan.interpreter.calls.handed_to_loops import all_loopers, loopers_in
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.symbols.blocks import parameters
from graphsafe.scan.symbols.index import FileIndex
from graphsafe.scan.symbols.project import Project

_DEFINED = re.compile(rb"^\s*(?:def|class)\s+(\w+)", re.M)


def capture_sites(project: Project, file: FileIndex) -> Iterator[str]:
    """Yield the functions, or the module level (`path::`), that contain a capture or make another function hot.

    A helper that captures its argument does not show which function it captures. The helper's callers in the file show
    this, so they are yielded too.
    """
    if file.captures:
        yield f"{file.path}::"
    loopers = {*loopers_in(project.files.data(file.path) or b""), *_imported_loopers(project, file)}
    helpers = {*_helpers(project, file), *_imported_helpers(project, file), *loopers}
    if loopers and _is_called_at_module_level(project, file, loopers):
        yield f"{file.path}::"
    for facts in file.functions.values():
        ref = f"{file.path}::{facts.name}"
        node = project.function_node(ref) if helpers else None
        calls_helper = node is not None and not _called(node).isdisjoint(helpers)
        if facts.captures or facts.hands_over or calls_helper:
            yield ref


def _imported_loopers(project: Project, file: FileIndex) -> Iterator[str]:
    """Yield the names under which a file imports functions that may call their first parameter in a loop."""
    known = all_loopers(project.files)
    for name, target in file.imports.items():
        if target.rpartition(".")[2] in known:
            binding = project.resolve(file, name)
            if binding is not None and binding.kind == "function":
                yield name


def _is_called_at_module_level(project: Project, file: FileIndex, names: set[str]) -> bool:
    lines = project.files.source(file.path).lines
    called = [number for number, line in enumerate(lines, 1) if any(f"{name}(" in line for name in names)]
    functions = file.functions.values()
    return any(not any(facts.holds(number) for facts in functions) for number in called)


def _helpers(project: Project, file: FileIndex) -> Iterator[str]:
    """Yield the names of the file's functions that capture one of their arguments. For a constructor, this is the name
    of its class."""
    for facts in file.functions.values():
        if _captures_argument(project, f"{file.path}::{facts.name}"):
            yield facts.name.removesuffix(".__init__").rpartition(".")[2]


def _imported_helpers(project: Project, file: FileIndex) -> Iterator[str]:
    """Yield the names under which a file imports functions and classes that capture an argument."""
    known = project.files.found_by("definitions in files that capture", _defined)
    for name, target in file.imports.items():
        binding = project.resolve(file, name) if target.rpartition(".")[2] in known else None
        if binding is not None and binding.kind in ("function", "class"):
            ref = binding.ref if binding.kind == "function" else project.find_method(binding.ref, "__init__")
            if ref is not None and _captures_argument(project, ref):
                yield name


def _defined(data: bytes) -> Iterator[tuple[str, str]]:
    for name in _DEFINED.findall(data) if b"cuda.graph(" in data or b".capture_begin(" in data else ():
        yield name.decode(), ""


def _captures_argument(project: Project, ref: str) -> bool:
    facts = project.function_facts(ref)
    node = project.function_node(ref) if facts is not None and facts.captures else None
    return node is not None and _calls_argument(node)


@memoize_on_node
def _calls_argument(function: ast.AST) -> bool:
    """Return whether a function calls one of its parameters inside a captured block."""
    assert isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
    given = {one.arg for one in parameters(function)} - {"self", "cls"}
    calls = calls_in(captures_in(function))
    return any(isinstance(call.func, ast.Name) and call.func.id in given for call in calls)


@memoize_on_node
def _called(function: ast.AST) -> frozenset[str]:
    """Return the names of the functions that code calls, and of the methods that it calls on a variable."""
    found = set()
    for call in inside(function, ast.Call):
        if isinstance(call.func, ast.Name):
            found.add(call.func.id)
        elif isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
            found.add(call.func.attr)
    return frozenset(found)
