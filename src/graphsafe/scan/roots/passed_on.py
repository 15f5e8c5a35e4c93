"""Finds parameters that are tensors because a function passes them to another function of the project that takes
tensors."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphsafe.scan.execution.frame import Engine
from graphsafe.scan.roots.tensor_arguments import tensor_parameters, undeclared
from graphsafe.scan.sources.node_memo import inside, memoize_on_node
from graphsafe.scan.symbols.blocks import Definition
from graphsafe.scan.symbols.index import FunctionFacts, dotted
from graphsafe.scan.symbols.project import ref_of

MAX_CALLS = 3
"""The largest number of calls through which a parameter is followed. Public functions often check their arguments and
pass them to functions that check them again."""

_Call = tuple[str, tuple[tuple[int | str, str], ...]]
"A called function, and the caller's parameters that the call passes: position or keyword -> parameter."


def takes_tensors_at_last(engine: Engine, facts: FunctionFacts, path: str, with_arithmetic: bool) -> bool:
    """Return whether a function passes one of its parameters on until the parameter is used as a tensor."""
    return bool(_tensors(engine, facts, path, with_arithmetic, MAX_CALLS))


def _tensors(engine: Engine, facts: FunctionFacts, path: str, with_arithmetic: bool, calls: int) -> frozenset[str]:
    node = engine.project.function_node(f"{path}::{facts.name}")
    if node is None:
        return frozenset()
    found = {*tensor_parameters(node, engine.ops, facts.is_method, with_arithmetic)}
    for called, given in _handed_on(node) if calls else ():
        ref = _meant(engine, facts, path, called)
        other = engine.project.function_facts(ref) if ref is not None else None
        if ref is None or other is None:
            continue
        taken = _tensors(engine, other, ref.partition("::")[0], with_arithmetic, calls - 1)
        names = _positional(engine, ref, other)
        for place, name in given:
            if isinstance(place, int):
                place = names[place] if place < len(names) else ""
            if place in taken:
                found.add(name)
    return frozenset(found)


def _meant(engine: Engine, facts: FunctionFacts, path: str, called: str) -> str | None:
    """Return the project's function to which a name, `module.name` or `self.name` refers in a function, or None."""
    project = engine.project
    file = project.files.index(path)
    head, *rest = called.split(".")
    if file is None:
        return None
    if head in ("self", "cls") and facts.owner is not None:
        return project.find_method(f"{path}::{facts.owner}", rest[0]) if len(rest) == 1 else None
    binding = project.resolve(file, head)
    if binding is not None and rest:
        binding = project.member(binding, rest) if binding.kind == "module" else None
    return ref_of(binding, "function")


def _positional(engine: Engine, ref: str, facts: FunctionFacts) -> list[str]:
    node = engine.project.function_node(ref)
    names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)] if node is not None else []
    return names[1:] if facts.is_method else names


@memoize_on_node
def _handed_on(function: ast.AST) -> tuple[_Call, ...]:
    return tuple(_calls_with(function)) if isinstance(function, Definition) else ()


def _calls_with(function: Definition) -> Iterator[_Call]:
    own = {*undeclared(function)}
    for inner in inside(function, ast.Call) if own else ():
        called = dotted(inner.func)
        if called is None:
            continue
        given: list[tuple[int | str, str]] = []
        for position, argument in enumerate(inner.args):
            if isinstance(argument, ast.Starred):
                break
            if isinstance(argument, ast.Name) and argument.id in own:
                given.append((position, argument.id))
        for keyword in inner.keywords:
            if keyword.arg is not None and isinstance(keyword.value, ast.Name) and keyword.value.id in own:
                given.append((keyword.arg, keyword.value.id))
        if given:
            yield called, tuple(given)
