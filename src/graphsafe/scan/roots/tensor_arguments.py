"""Tells whether a function takes tensors, by its annotations or by how the body uses its arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set

from graphsafe.optable import OpTable
from graphsafe.scan.interpreter.calls.parameter_usage import is_used_as_tensor
from graphsafe.scan.sources.node_memo import memoize_on_node
from graphsafe.scan.symbols.index import dotted

_TORCH = ("torch.", "F.")
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)

Definition = ast.FunctionDef | ast.AsyncFunctionDef


def takes_tensors(function: Definition, ops: OpTable, is_method: bool, with_arithmetic: bool) -> bool:
    """Return whether one of the parameters is a tensor."""
    return any(True for _ in tensor_parameters(function, ops, is_method, with_arithmetic))


def tensor_parameters(function: Definition, ops: OpTable, is_method: bool, with_arithmetic: bool) -> Iterator[str]:
    """Return the parameters that are tensors, without a method's receiver.

    `with_arithmetic` counts a parameter that is multiplied, compared or indexed, unless its annotation or default says
    otherwise. Code uses numbers and arrays in the same way, so the caller has to judge.
    """
    for parameter, default in [*_parameters(function)][1 if is_method else 0 :]:
        name = parameter.arg
        if name in _with_sides(function):
            continue
        if parameter.annotation is not None:
            if _names_tensor(parameter.annotation):
                yield name
        elif _is_undeclared(parameter, default) and (
            is_used_as_tensor(function, name, ops, "step-input" if with_arithmetic else "parameter")
            or name in (_operands(function) if with_arithmetic else _copied(function))
        ):
            yield name


def undeclared(function: Definition) -> Iterator[str]:
    """Yield the parameters that have neither a telling annotation nor a telling default."""
    return (parameter.arg for parameter, default in _parameters(function) if _is_undeclared(parameter, default))


def _is_undeclared(parameter: ast.arg, default: ast.expr | None) -> bool:
    is_none = isinstance(default, ast.Constant) and default.value is None
    return parameter.annotation is None and (default is None or is_none)


def _parameters(function: Definition) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """Yield each parameter with its default."""
    spec = function.args
    positional = [*spec.posonlyargs, *spec.args]
    missing: list[ast.expr | None] = [None] * (len(positional) - len(spec.defaults))
    yield from zip(positional, [*missing, *spec.defaults], strict=True)
    yield from zip(spec.kwonlyargs, spec.kw_defaults, strict=True)


def _names_tensor(annotation: ast.expr) -> bool:
    return any("Tensor" in name.replace("'", " ").split(".")[-1] for name in _names(annotation))


def _names(annotation: ast.expr) -> Iterator[str]:
    for inner in ast.walk(annotation):
        if isinstance(inner, ast.Name):
            yield inner.id
        elif isinstance(inner, ast.Attribute):
            yield inner.attr
        elif isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value


@memoize_on_node
def _operands(function: ast.AST) -> Set[str]:
    """Return the names that are operands, compared or indexed."""
    found = set(_copied(function))
    for inner in ast.walk(function):
        operands: list[ast.expr] = []
        if isinstance(inner, ast.BinOp) and (_is_number(inner.left) or _is_number(inner.right)):
            continue
        if isinstance(inner, ast.BinOp) and not isinstance(inner.left, (ast.Constant, ast.JoinedStr)):
            operands = [inner.left, inner.right]
        elif isinstance(inner, ast.BinOp) and isinstance(inner.left, ast.Constant):
            operands = [] if isinstance(inner.left.value, str) else [inner.right]
        elif isinstance(inner, ast.Compare) and isinstance(inner.ops[0], _ORDERS):
            operands = [inner.left, *inner.comparators]
        elif isinstance(inner, ast.Subscript) and isinstance(inner.slice, (ast.Compare, ast.Tuple, ast.Slice)):
            operands = [inner.value]
        elif isinstance(inner, ast.Call) and (dotted(inner.func) or "").startswith(_TORCH):
            operands = [part for given in inner.args for part in _parts_of(given)]
        elif isinstance(inner, ast.Assign) and any(map(_is_sliced, inner.targets)):
            operands = [inner.value]
        found.update(operand.id for operand in operands if isinstance(operand, ast.Name))
    return frozenset(found)


def _is_number(operand: ast.expr) -> bool:
    """Return whether an operand is a number like `x.item()`: then the others are numbers too."""
    return isinstance(operand, ast.Call) and isinstance(operand.func, ast.Attribute) and operand.func.attr == "item"


@memoize_on_node
def _with_sides(function: ast.AST) -> Set[str]:
    """Return the names whose `size` is unpacked, as that of an image is; a tensor's `size` is a method."""
    return frozenset(
        inner.value.value.id
        for inner in ast.walk(function)
        if isinstance(inner, ast.Assign) and isinstance(inner.value, ast.Attribute) and inner.value.attr == "size"
        if isinstance(inner.value.value, ast.Name) and any(isinstance(target, ast.Tuple) for target in inner.targets)
    )


def _parts_of(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, (ast.List, ast.Tuple)) else [node]


def _is_sliced(target: ast.expr) -> bool:
    return isinstance(target, ast.Subscript) and any(isinstance(part, ast.Slice) for part in _parts_of(target.slice))


@memoize_on_node
def _copied(function: ast.AST) -> Set[str]:
    """Return the names that are given to a method that works in place, as in `best.copy_(loss)`."""
    return frozenset(
        argument.id
        for inner in ast.walk(function)
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute)
        if inner.func.attr.endswith("_") and not inner.func.attr.startswith("_")
        for argument in inner.args
        if isinstance(argument, ast.Name)
    )
