"""Calls of constructors in cold code. They show the value of an attribute in which the constructor only stores its
argument."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from graphsafe.scan.domain.arguments import Call
from graphsafe.scan.domain.summary import Effects
from graphsafe.scan.domain.values import Value
from graphsafe.scan.execution.frame import Engine
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.blocks import kept_names
from graphsafe.scan.symbols.index import FileIndex, dotted
from graphsafe.scan.symbols.project_files import Files

MAX_SITES = 8
"The largest number of functions that are read to find the values of one attribute."
_CALL = re.compile(rb"(?<!\w)([A-Z]\w*)\(")
_CLASS_ITSELF = re.compile(r"\bcls\(")


def built(engine: Engine, ref: str, name: str) -> Iterator[Value]:
    """Yield the objects that constructor calls of the project put into an attribute which methods of the class call."""
    project = engine.project
    node = project.method_node(ref, "__init__")
    parameter = kept_names(node).get(name) if node is not None else None
    if node is None or parameter is None or not _is_called(engine, ref, name):
        return
    names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)][1:]
    position = names.index(parameter) if parameter in names else len(names)
    sites = sorted({*_in_files(engine, ref, position, parameter), *_of_class(engine, ref, position, parameter)})
    for site in sites[:MAX_SITES]:
        outer, engine.effects = engine.effects, Effects()
        try:
            summary = engine.summary(Call(site, depth=1, level=0), 0 if engine.budget.holds(site) else 1)
        finally:
            engine.effects = outer
        if summary is not None:
            yield from summary.constructed.get((ref, name), ())


def _is_called(engine: Engine, ref: str, name: str) -> bool:
    """Return whether the class calls the attribute or a method of the attribute."""
    path = ref.partition("::")[0]
    facts = engine.project.class_facts(ref)
    called = re.compile(rf"\bself\.{name}(?:\.\w+)?\(")
    lines = engine.project.files.source(path).lines if facts is not None else ()
    methods = facts.methods.values() if facts is not None else ()
    found = (engine.project.function_facts(f"{path}::{method}") for method in methods)
    return any(called.search(line) for one in found if one is not None for line in lines[one.line : one.end_line])


def _in_files(engine: Engine, ref: str, position: int, parameter: str) -> Iterator[str]:
    """Yield the functions that call the class by its name and pass an object that they make."""
    name = ref.rpartition("::")[2]
    for path in _paths_by_class(engine.project.files).get(name, ()):
        file = engine.project.files.index(path)
        lines = engine.project.files.source(path).lines if file is not None else ()
        for facts in file.functions.values() if file is not None else ():
            site = f"{path}::{facts.name}"
            if any(f"{name}(" in line for line in lines[facts.line - 1 : facts.end_line]):
                node = engine.project.function_node(site)
                calls = inside(node, ast.Call) if node is not None else ()
                if any(
                    _means(engine, file, call.func, ref) and _makes(node, call, position, parameter) for call in calls
                ):
                    yield site


def _of_class(engine: Engine, ref: str, position: int, parameter: str) -> Iterator[str]:
    """Yield the class's own methods that call `cls(…)`."""
    facts = engine.project.class_facts(ref)
    path = ref.partition("::")[0]
    for method in facts.methods.values() if facts is not None else ():
        node = engine.project.function_node(f"{path}::{method}")
        calls = inside(node, ast.Call) if node is not None and _CLASS_ITSELF.search(ast.unparse(node)) else ()
        if any(dotted(call.func) == "cls" and _makes(node, call, position, parameter) for call in calls):
            yield f"{path}::{method}"


def _means(engine: Engine, file: FileIndex | None, function: ast.expr, ref: str) -> bool:
    head, *rest = (dotted(function) or "").split(".")
    binding = engine.project.resolve(file, head) if file is not None and head else None
    if binding is not None and rest:
        binding = engine.project.member(binding, rest)
    return binding is not None and binding.kind == "class" and binding.ref == ref


def _makes(function: ast.AST | None, call: ast.Call, position: int, parameter: str) -> bool:
    """Return whether a call passes an object that the calling function makes: `Head(TopK(5))`, `Head(chosen)`."""
    given = [word.value for word in call.keywords if word.arg == parameter]
    given += call.args[position : position + 1]
    made = {
        inner.id
        for inner in (inside(function, ast.Name) if function is not None else ())
        if isinstance(inner.ctx, ast.Store)
    }
    return any(
        isinstance(inner, ast.Call) or (isinstance(inner, ast.Name) and inner.id in made)
        for value in given
        for inner in ast.walk(value)
    )


def _paths_by_class(files: Files) -> Mapping[str, Sequence[str]]:
    """Map each class name to the files that call something by this name."""

    def read() -> Mapping[str, Sequence[str]]:
        table: dict[str, list[str]] = {}
        for path in sorted(files.names):
            for name in set(_CALL.findall(files.data(path) or b"")):
                table.setdefault(name.decode(), []).append(path)
        return table

    return files.table("constructor calls", read)
