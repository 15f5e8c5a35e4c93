"""Reads in the source which values a capture is given, and whether a replaying function uses an argument.

A function that does not use an argument cannot choose a graph by it.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Iterator, Mapping
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

import torch

from graphsafe.capture.shared.frames import function_name
from graphsafe.run.child.expressions import file_tree, names_of, value_of
from graphsafe.run.child.names import attributes_of

Function = ast.FunctionDef | ast.AsyncFunctionDef


@functools.lru_cache(maxsize=64)
def captured_statements(path: str, line: int) -> tuple[ast.stmt, ...]:
    """Return the statements inside `with torch.cuda.graph(...)`, or none for a capture written in another way."""
    withs = [node for node in ast.walk(file_tree(path)) if isinstance(node, ast.With) and _holds(node, line)]
    inner = max(withs, key=lambda node: node.lineno, default=None)
    return () if inner is None else tuple(inner.body)


def given_by(outer: FrameType, inner: CodeType) -> dict[str, ast.expr]:
    """Return the expressions that a call in `outer` passes as parameters of the function `inner`."""
    function = function_of(outer.f_code)
    nodes = () if function is None else ast.walk(function)
    name = inner.co_name
    if name == "__init__":
        name = (function_name(inner) or "").removesuffix(".__init__").rpartition(".")[2]
    calls = [node for node in nodes if isinstance(node, ast.Call) and _name(node.func) == name]
    here = [call for call in calls if call.lineno <= outer.f_lineno <= (call.end_lineno or call.lineno)]
    return given_to(here[0], inner) if len(here) == 1 else {}


def called(call: ast.Call, names: Mapping[str, Any]) -> tuple[Any, FunctionType] | None:
    """Return the Python function that a call would run, with its object or None, without running the program's code."""
    value = value_of(call.func, names)
    kind = type(value)  # `isinstance` could run the object's `__class__` property
    if kind is MethodType:
        return (value.__self__, value.__func__) if type(value.__func__) is FunctionType else None
    if kind is FunctionType:
        owner = value_of(call.func.value, names) if isinstance(call.func, ast.Attribute) else None
        is_method = isinstance(call.func, ast.Attribute) and call.func.attr not in attributes_of(owner)
        return (owner if is_method else None), value
    run = inspect.getattr_static(kind, "forward" if issubclass(kind, torch.nn.Module) else "__call__", None)
    return (value, run) if type(run) is FunctionType else None


def ignores(frame: FrameType, name: str, attribute: str | None = None) -> bool:
    """Return whether a function ignores its argument `name` (or an attribute of it): the function only writes it into a
    tensor or passes it to functions that ignore it. Branches beside the running one do not count."""
    function = function_of(frame.f_code)
    if function is None:
        return False
    values = names_of(frame)
    harmless = set(map(id, beside(function, frame.f_lineno)))
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            given = (one for one in node.args if _is_read(one, (name,)) or _reads_attribute(one, name, attribute))
            harmless.update(
                id(each) for one in given if _is_ignored(node, one, values, attribute) for each in ast.walk(one)
            )
    return all(id(node) in harmless for node in _reads(function, name, attribute))


def beside(function: ast.AST, line: int) -> Iterator[ast.AST]:
    """Yield the nodes of branches that exclude the one that holds a line."""
    for node in (one for one in ast.walk(function) if isinstance(one, ast.If)):
        arms = [arm for arm in (node.body, node.orelse) if arm]
        held = [arm for arm in arms if arm[0].lineno <= line <= (arm[-1].end_lineno or arm[-1].lineno)]
        for arm in arms if held else ():
            yield from (each for one in arm if arm is not held[0] for each in ast.walk(one))


def chosen_at(code: CodeType, captured: int, replayed: int) -> int | None:
    """Return the line of a function that led to a capture, if a condition stands before it and not before the line that
    led to a replay: there the function decides whether it has a graph."""
    function = function_of(code)
    for node in ast.walk(function) if function is not None else ():
        if isinstance(node, (ast.If, ast.ExceptHandler)):
            first, last = node.lineno, node.end_lineno or node.lineno
            if first <= captured <= last and not first <= replayed <= last:
                return captured
    return None


def parameters(code: CodeType) -> tuple[str, ...]:
    """Return the names of a function's parameters, without `*args` and `**kwargs`."""
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _is_ignored(call: ast.Call, argument: ast.expr, values: Mapping[str, Any], attribute: str | None) -> bool:
    # `fill_` and similar methods write into a tensor
    if isinstance(call.func, ast.Attribute) and call.func.attr.endswith("_"):
        return True
    known = called(call, values)
    if known is None:
        return False
    code = known[1].__code__
    parameter = next((name for name, one in given_to(call, code).items() if one is argument), None)
    function = function_of(code)
    whole = attribute if isinstance(argument, ast.Name) else None
    return function is not None and parameter is not None and not any(_reads(function, parameter, whole))


def given_to(call: ast.Call, code: CodeType) -> dict[str, ast.expr]:
    named = parameters(code)
    if named[:1] == ("self",) and not (call.args and _is_read(call.args[0], named[:1])):
        named = named[1:]
    if any(isinstance(one, ast.Starred) for one in call.args):
        return {}
    given = dict(zip(named, call.args, strict=False))
    return given | {one.arg: one.value for one in call.keywords if one.arg is not None}


def _reads(function: ast.AST, name: str, attribute: str | None) -> Iterator[ast.AST]:
    """Yield the reads of a variable, or of an attribute of it; the whole object is read where it is passed on."""
    others = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and attribute not in (None, node.attr):
            others.add(id(node.value))
        elif _is_read(node, (name,)) and id(node) not in others:
            yield node


def _reads_attribute(node: ast.AST, name: str, attribute: str | None) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == attribute and _is_read(node.value, (name,))


def _is_read(node: ast.AST, names: tuple[str, ...]) -> bool:
    return isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load)


def _name(function: ast.expr) -> str | None:
    if isinstance(function, ast.Name):
        return function.id
    return function.attr if isinstance(function, ast.Attribute) else None


@functools.lru_cache(maxsize=256)
def function_of(code: CodeType) -> Function | None:
    """Return the syntax tree of a function; None if the file does not contain it."""
    for node in ast.walk(file_tree(code.co_filename)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == code.co_name:
            first = node.decorator_list[0] if node.decorator_list else node
            if first.lineno == code.co_firstlineno:
                return node
    return None


def _holds(node: ast.With, line: int) -> bool:
    head = any("graph" in ast.unparse(item.context_expr) for item in node.items)
    return head and node.lineno <= line <= (node.end_lineno or line)
