"""Finds the imports that a factory makes before it does anything else: these can be made earlier with the same
result."""

from __future__ import annotations

import ast
from types import CodeType, FunctionType
from typing import Any


def first_imports(module: Any, name: str) -> list[CodeType]:
    """Return the import statements at the beginning of a factory, compiled. The search continues in a function of the
    same file that the factory calls first, with plain arguments.

    `name` is that of the factory in its imported module. The list is empty if the functions do not come from this
    source.
    """
    try:
        with open(module.__file__, "rb") as file:
            statements = ast.parse(file.read()).body
    except (OSError, SyntaxError, ValueError, TypeError, AttributeError):
        return []
    functions = {one.name: one for one in statements if isinstance(one, ast.FunctionDef)}
    found: list[ast.stmt] = []
    called: str | None = name
    while called is not None and _is_source(functions.get(called), module.__dict__.get(called)):
        called = _collect(functions.pop(called), found)
    return [compile(ast.Module([one], []), module.__file__, "exec") for one in found]


def _is_source(node: ast.FunctionDef | None, function: Any) -> bool:
    """Return whether a function of the module still has the code of its source, so that a call runs these
    statements."""
    if node is None or node.decorator_list or not isinstance(function, FunctionType):
        return False
    return function.__code__.co_firstlineno == node.lineno


def _collect(function: ast.FunctionDef, found: list[ast.stmt]) -> str | None:
    """Collect the imports at the beginning of a function; return the name of the function that is called next."""
    for statement in function.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            found.append(statement)
        elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            return _called(statement)
    return None


def _called(statement: ast.stmt) -> str | None:
    call = getattr(statement, "value", None)
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return None
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return call.func.id if all(isinstance(one, (ast.Name, ast.Constant)) for one in arguments) else None
