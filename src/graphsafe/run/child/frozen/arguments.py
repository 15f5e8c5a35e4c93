"""Finds out whether a replaying function uses an argument. A function that ignores an argument cannot choose a graph by
this argument."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from types import FrameType

from graphsafe.run.child.frozen.origins import Scope, callee, running_in, scope_of
from graphsafe.run.child.source import beside, collecting_parameter, function_of, given_to, is_read, parameters


def ignores(frame: FrameType, name: str, attribute: str | None = None) -> bool:
    """Return whether a function ignores its argument `name`, or an attribute of the argument.

    A function ignores an argument if it only writes the argument into a tensor, or only passes the argument to
    functions that ignore it. Only the running branch is examined.
    """
    function = function_of(frame.f_code)
    if function is None:
        return False
    scope = running_in(frame)
    harmless = set(map(id, beside(function, frame.f_lineno)))
    for call in (one for one in ast.walk(function) if isinstance(one, ast.Call)):
        for one in call.args:
            if _is_argument(one, name, attribute) and _is_ignored(call, one, scope, attribute):
                harmless.update(map(id, ast.walk(one)))
    return all(id(node) in harmless for node in _reads(function, name, attribute))


def _is_argument(node: ast.expr, name: str, attribute: str | None) -> bool:
    """Return whether an expression is the variable `name` or its attribute."""
    node = node.value if isinstance(node, ast.Attribute) and node.attr == attribute else node
    return is_read(node) and node.id == name


def _is_ignored(call: ast.Call, argument: ast.expr, scope: Scope, attribute: str | None) -> bool:
    # a method that ends with an underscore, such as `fill_`, only writes into a tensor
    if isinstance(call.func, ast.Attribute) and call.func.attr.endswith("_"):
        return True
    known = callee(scope.origin(call.func).value)
    if known is None:
        return False
    code = known[0].__code__
    given = given_to(call, code.co_varnames[len(known[1]) : code.co_argcount])
    parameter = next((name for name, one in given.items() if one is argument), None)
    function = function_of(code)
    whole = attribute if isinstance(argument, ast.Name) else None
    return function is not None and parameter is not None and not any(_reads(function, parameter, whole))


def passed_on_to(frames: Sequence[FrameType], body: Sequence[ast.stmt]) -> frozenset[str]:
    """Find the functions to which captured statements pass the `**kwargs` of their own function. Return the parameters
    that these functions read."""
    name = collecting_parameter(frames[0].f_code)
    calls = [one for node in body for one in ast.walk(node) if isinstance(one, ast.Call)] if name else []
    words = ((one, word.value) for one in calls for word in one.keywords if word.arg is None)
    passing = [one for one, collected in words if is_read(collected) and collected.id == name]
    if not passing:
        return frozenset()
    found: set[str] = set()
    scope = scope_of(frames)
    for call in passing:
        known = callee(scope.origin(call.func).value)
        function = None if known is None else function_of(known[0].__code__)
        if known is not None and function is not None:
            names = parameters(known[0].__code__)
            found.update(one for one in names if any(True for _ in _reads(function, one, None)))
    return frozenset(found)


def _reads(function: ast.AST, name: str, attribute: str | None) -> Iterator[ast.AST]:
    """Yield the reads of a variable, or of its attribute. Passing on the whole object counts as a read of both."""
    others = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and attribute not in (None, node.attr):
            others.add(id(node.value))
        elif is_read(node) and node.id == name and id(node) not in others:
            yield node
