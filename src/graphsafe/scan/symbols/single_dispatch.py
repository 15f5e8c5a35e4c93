"""Implementations among which Python chooses by the type of an argument: `functools.singledispatch` and its method."""

from __future__ import annotations

import ast
from collections.abc import Iterable

_REGISTER = ".register"


def dispatches(decorators: Iterable[str]) -> bool:
    """Return whether a function under these decorators has implementations for single types."""
    return any(name.rpartition(".")[2] in ("singledispatch", "singledispatchmethod") for name in decorators)


def base_name(decorators: Iterable[str], prefix: str) -> str:
    """Return the qualified name of the function to which an implementation under these decorators belongs; empty for
    others."""
    return next((prefix + name.removesuffix(_REGISTER) for name in decorators if name.endswith(_REGISTER)), "")


def type_of(node: ast.FunctionDef | ast.AsyncFunctionDef, is_method: bool) -> str:
    """Return the last part of the name of the type that an implementation is for."""
    given = [inner.args[0] for inner in node.decorator_list if isinstance(inner, ast.Call) and inner.args]
    parameters = [*node.args.posonlyargs, *node.args.args][is_method:]
    annotation = given[0] if given else parameters[0].annotation if parameters else None
    if annotation is None:
        return ""
    text = annotation.value if isinstance(annotation, ast.Constant) else None
    return (text if isinstance(text, str) else ast.unparse(annotation)).partition("[")[0].rpartition(".")[2]


def own_name(node: ast.FunctionDef | ast.AsyncFunctionDef, is_method: bool) -> str:
    """Return `_[Tensor]` for an implementation that shares the name `_` with others."""
    return f"{node.name}[{type_of(node, is_method)}]" if not node.name.strip("_") else node.name
