"""Cold code that makes objects of a class. It shows the values of attributes that only store an argument, or that are
assigned from outside of the class."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Set

from graphsafe.scan.domain.arguments import Call
from graphsafe.scan.domain.joins import join_all
from graphsafe.scan.domain.summary import Effects, Summary
from graphsafe.scan.domain.values import Value
from graphsafe.scan.execution.frame import Engine
from graphsafe.scan.sources.node_memo import inside
from graphsafe.scan.symbols.blocks import kept_names
from graphsafe.scan.symbols.index import FileIndex, dotted
from graphsafe.scan.symbols.project import ref_of

MAX_SITES = 8
"The largest number of functions that are read to find the values of one attribute."
# A search that begins with a set of characters, or with a line end, is twice as fast.
_CALL = re.compile(rb"([A-Z](?<!\w.)\w*)\(")
_ASSIGNED = re.compile(rb"\n[ \t]+(?!self\.)\w+\.(\w+) = [\w.]*\b[A-Z]\w*\(")


def built(engine: Engine, ref: str, name: str) -> Iterator[Value]:
    """Yield the objects that an attribute gets in constructor calls of the project. Yield nothing unless methods of the
    class call this attribute."""
    project = engine.project
    node = project.method_node(ref, "__init__")
    parameter = kept_names(node).get(name) if node is not None else None
    if node is None or parameter is None or not _is_called(engine, ref, name):
        return
    names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)][1:]
    position = names.index(parameter) if parameter in names else len(names)

    def passes_object(file: FileIndex, site: str) -> bool:
        node = engine.project.function_node(site)
        calls = inside(node, ast.Call) if node is not None else ()
        named = (call for call in calls if _means(engine, file, call.func, ref))
        return any(_makes(node, call, position, parameter) for call in named)

    own = _class_name(ref)
    sites = {site for file, site in _functions_with(engine, own, re.compile(rf"{own}\(")) if passes_object(file, site)}
    for summary in _summaries(engine, {*sites, *_of_class(engine, ref, position, parameter)}):
        yield from summary.constructed.get((ref, name), ())


def assigned(engine: Engine, ref: str, name: str, first: Value | None) -> Value | None:
    """Return `first`, the value of an attribute, joined with the objects that functions outside of the class assign to
    it, as in `net.cache = Cache(8)`. Only attributes that methods of the class call are searched for."""
    known = engine.project.files.found_by("assigned objects", _attributes_assigned)
    if name not in known or not _is_called(engine, ref, name):
        return first
    assignment = re.compile(rf"^\s+(?!self\.)\w+\.{name} = ")
    sites = {site for _, site in _functions_with(engine, _class_name(ref), assignment)}
    objects = [value for one in _summaries(engine, sites) for value in one.written.get((ref, name), ())]
    return join_all([first, *objects] if first is not None else objects) if objects else first


def _summaries(engine: Engine, sites: Set[str]) -> Iterator[Summary]:
    for site in sorted(sites)[:MAX_SITES]:
        outer, engine.effects = engine.effects, Effects()
        try:
            summary = engine.summary(Call(site, depth=1, level=0), 0 if engine.budget.holds(site) else 1)
        finally:
            engine.effects = outer
        if summary is not None:
            yield summary


def _class_name(ref: str) -> str:
    return ref.rpartition("::")[2]


def _is_called(engine: Engine, ref: str, name: str) -> bool:
    """Return whether the class calls the attribute or a method of the attribute."""
    called = re.compile(rf"\bself\.{name}(?:\.\w+)?\(")
    found = [engine.project.function_facts(method) for method in engine.project.own_methods(ref)]
    lines = engine.project.files.source(ref.partition("::")[0]).lines if found else ()
    return any(called.search(line) for one in found if one is not None for line in lines[one.line : one.end_line])


def _functions_with(engine: Engine, cls: str, pattern: re.Pattern[str]) -> Iterator[tuple[FileIndex, str]]:
    """Yield the functions with a line that the pattern matches, in the files that call the class by its name."""
    for path, _ in sorted(engine.project.files.found_by("constructor calls", _classes_called).get(cls, ())):
        file = engine.project.files.index(path)
        lines = engine.project.files.source(path).lines if file is not None else ()
        for facts in file.functions.values() if file is not None else ():
            if file is not None and any(pattern.search(line) for line in lines[facts.line - 1 : facts.end_line]):
                yield file, f"{path}::{facts.name}"


def _of_class(engine: Engine, ref: str, position: int, parameter: str) -> Iterator[str]:
    """Yield the class's own methods that call `cls(…)`."""
    for method in engine.project.own_methods(ref):
        node = engine.project.function_node(method)
        calls = inside(node, ast.Call) if node is not None else ()
        if any(dotted(call.func) == "cls" and _makes(node, call, position, parameter) for call in calls):
            yield method


def _means(engine: Engine, file: FileIndex | None, function: ast.expr, ref: str) -> bool:
    return ref_of(engine.project.meaning(file, dotted(function) or ""), "class") == ref


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


def _classes_called(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield the names with a capital letter that a file calls."""
    return ((name.decode(), "") for name in {*_CALL.findall(data)})


def _attributes_assigned(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield the attributes to which a file assigns new objects, except attributes of `self`."""
    return ((name.decode(), "") for name in {*_ASSIGNED.findall(data)})
