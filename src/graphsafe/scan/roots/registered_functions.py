"""Functions that are called through a table, a registry or the dispatcher's operators."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from graphsafe.scan.hazards.graph_syntax import stored_names
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.symbols.custom_ops import operators_in
from graphsafe.scan.symbols.index import FileIndex
from graphsafe.scan.symbols.project import Project

_REGISTERS = re.compile(r"(^|[_.])register(_|$)")
_OTHERS = re.compile(r"fake|meta|abstract|atexit|autograd|_cpu|cpu_")
"""Matches the names and the registrations of functions that are no steps: a function that only describes an operator,
or one that does not run on the GPU."""
_OPERATORS = ("custom_op", "triton_op", "library.impl", "register_kernel")
# A pattern that begins with the line break itself is four times as fast as one with an anchor.
_TABLE = re.compile(rb"\n[A-Z][^\n=]*=[ \t]*\{")
_REGISTERING = re.compile(rb"\n@[\w.]*register")
_DECORATOR = re.compile(rb"\n@(\w+)")
_DEFINED = re.compile(rb"\ndef (\w+)")
_PATCHES = re.compile(rb"\n[ \t]*([A-Za-z_]\w*)(?:\.\w+)+ = ([A-Za-z_]\w*)(?=[ \t\r]*(?:\n|#|$))")
"Matches the replacement of a function by another one: `modeling_llama.apply_rotary_pos_emb = apply_rotary`."
_FILLS = frozenset(("update", "append", "setdefault", "add"))


def may_register(data: bytes) -> bool:
    """Return whether a file may put functions into a table or registry."""
    if b"torch" not in data:
        return False
    data = b"\n" + data
    if _TABLE.search(data) is not None or _REGISTERING.search(data) is not None or any(_patched(data)):
        return True
    return not set(_DECORATOR.findall(data)).isdisjoint(_DEFINED.findall(data))


def _patched(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield the assignments of the file's functions to attributes. For each assignment, yield the first name of the
    attribute's owner, and the function."""
    defined = set(_DEFINED.findall(data))
    found = _PATCHES.finditer(data) if defined else ()
    return ((match[1].decode(), match[2].decode()) for match in found if match[2] in defined)


def operators_of(file: FileIndex, data: bytes) -> Iterator[str]:
    """Yield the functions of a file that implement a custom operator. `data` is the file's contents."""
    named = {function for _, function in operators_in(data)}
    for facts in file.functions.values():
        is_decorated = any(decorator.endswith(_OPERATORS) for decorator in facts.decorators)
        if (is_decorated or facts.name in named) and _OTHERS.search(facts.name) is None:
            yield facts.name


def entries_of(project: Project, file: FileIndex) -> Iterator[str]:
    """Yield the functions of a file that a decorator registers, that are in a table at module level, or that replace a
    library's function."""
    for owner, name in _patched(b"\n" + (project.files.data(file.path) or b"")):
        binding = project.resolve(file, owner) if owner in file.imports and name in file.functions else None
        if binding is not None and binding.kind == "lib" and not binding.name.startswith("torch."):
            yield name
    for facts in file.functions.values():
        if facts.owner is None and any(_enters(project, file, decorator) for decorator in facts.decorators):
            yield facts.name
    tables = [bound[0] for name, bound in file.assigns.items() if name.isupper() and len(bound) == 1]
    source = project.files.source(file.path) if tables else None
    for first, last in tables:
        if source is not None and any("{" in line for line in source.lines_of(first, last)):
            statement = project.files.statement(file.path, first, last)
            value = getattr(statement, "value", None)
            if isinstance(value, ast.Dict):
                names = [item.id for item in value.values if isinstance(item, ast.Name)]
                yield from (found for found in names if project.function_facts(f"{file.path}::{found}") is not None)


def _enters(project: Project, file: FileIndex, decorator: str) -> bool:
    if _REGISTERS.search(decorator) is not None and _OTHERS.search(decorator) is None:
        return True
    binding = project.resolve(file, decorator) if "." not in decorator else None
    if binding is None or binding.kind != "function":
        return False
    node = project.function_node(binding.ref)
    return node is not None and _fills_table(node)


@memoize_on_node
def _fills_table(decorator: ast.AST) -> bool:
    """Return whether a decorator puts values into a table that already existed."""
    own = {inner.arg for inner in inside(decorator, ast.arg)} | stored_names(inside(decorator, ast.Name))
    functions = [call.func for call in inside(decorator, ast.Call) if isinstance(call.func, ast.Attribute)]
    tables = [function.value for function in functions if function.attr in _FILLS]
    tables += [entry.value for entry in inside(decorator, ast.Subscript) if isinstance(entry.ctx, ast.Store)]
    return any(isinstance(table, ast.Name) and table.id not in own for table in tables)
