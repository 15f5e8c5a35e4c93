"""Tells, from a file's source, whether a host value is a Python number, whether it is an integer (not a boolean), and
whether it can be negative.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable

from graphsafe.fixes.code import Code, Definition, dotted, is_literal

_Test = Callable[[ast.expr], bool]
_COUNTING = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.LShift, ast.RShift)
"Operators that give an integer if their operands are integers or booleans."
_GROWING = (ast.Add, ast.Mult, ast.FloorDiv, ast.LShift, ast.RShift)
"Operators whose result is not negative if their operands are not negative."
_MOST_NAMES = 4
"The largest number of assignments from name to name that are followed to find the origin of a value."


def is_integer(code: Code, node: ast.expr, depth: int = 0) -> bool:
    """Return whether a number that is used as an index is an integer. A boolean as an index would add a dimension."""
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    if isinstance(node, ast.UnaryOp):
        return not isinstance(node.op, ast.Not)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, _COUNTING)
    if isinstance(node, ast.Call) and dotted(node.func) in ("min", "max"):
        return all(is_integer(code, each, depth) for each in node.args)
    if is_extent(node) or (isinstance(node, ast.Call) and dotted(node.func) == "int"):
        return True
    return depth < _MOST_NAMES and _always(code, node, lambda value: is_integer(code, value, depth + 1), _COUNTING)


def is_size(code: Code, node: ast.expr, depth: int = 0) -> bool:
    """Return whether a number is an integer that is never negative."""
    if isinstance(node, ast.Constant):
        return type(node.value) is int and node.value >= 0
    if isinstance(node, ast.BinOp):
        operands = (node.left, node.right)
        return isinstance(node.op, _GROWING) and all(is_size(code, each, depth) for each in operands)
    if isinstance(node, ast.Call) and dotted(node.func) in ("min", "max"):
        return all(is_size(code, each, depth) for each in node.args)
    if is_extent(node):
        return True
    return depth < _MOST_NAMES and _always(code, node, lambda value: is_size(code, value, depth + 1), _GROWING)


def is_python_number(code: Code, node: ast.expr, depth: int = 0) -> bool:
    """Return whether a value is an `int`, `float` or `bool` of Python. A default or an annotation proves nothing: a
    caller may pass a NumPy number or a list."""
    if is_literal(node) or is_extent(node):
        return True
    if isinstance(node, ast.Call):
        return dotted(node.func) in ("int", "float", "bool") or dotted(node.func).startswith("math.")
    if isinstance(node, (ast.BinOp, ast.UnaryOp)):
        operands = [node.operand] if isinstance(node, ast.UnaryOp) else [node.left, node.right]
        return all(is_python_number(code, each, depth) for each in operands)
    return depth < _MOST_NAMES and _always(
        code, node, lambda value: is_python_number(code, value, depth + 1), (ast.operator,)
    )


def is_extent(node: ast.expr) -> bool:
    """Return whether a node reads a length: `x.shape[0]`, `x.size(0)`, `x.numel()`, `x.dim()`, `len(x)`."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    if not isinstance(node, ast.Call):
        return False
    of_tensor = isinstance(node.func, ast.Attribute) and (
        node.func.attr in ("numel", "dim") or (node.func.attr == "size" and bool(node.args))
    )
    return of_tensor or dotted(node.func) == "len"


def overflows_half(node: ast.expr) -> bool:
    """Return whether a literal is outside the range of half precision, whose largest number is 65504.

    A copy from the host turns such a number into infinity. `full` and `fill_` raise "value cannot be converted to type
    c10::Half without overflow" on a GPU (torch 2.11, measured on an H100).
    """
    number = node.operand if isinstance(node, ast.UnaryOp) else node
    value = number.value if isinstance(number, ast.Constant) else 0
    return type(value) in (int, float) and _HALF < abs(value) < math.inf  # type: ignore[arg-type]


_HALF = 65504


def keeps_meaning(name: str, function: Definition) -> bool:
    """Return whether a name is bound at most once in a function, as a parameter or by an assignment."""
    return len(_binders(name, function)) + _is_parameter(name, function) <= 1


def _always(code: Code, node: ast.expr, test: _Test, operators: tuple[type[ast.operator], ...]) -> bool:
    """Return whether every value that the file binds to a name or attribute passes a test."""
    if isinstance(node, ast.Name):
        function = code.function(node)
        if function is None or _is_parameter(node.id, function):
            return False
        binders = _binders(node.id, function)
    elif isinstance(node, ast.Attribute) and dotted(node):
        attributes = (
            each for each in ast.walk(code.tree) if isinstance(each, ast.Attribute) and each.attr == node.attr
        )
        binders = [each for each in attributes if not isinstance(each.ctx, ast.Load)]
    else:
        return False
    return bool(binders) and all(_passes(code, each, test, operators) for each in binders)


def _passes(code: Code, binder: ast.expr, test: _Test, operators: tuple[type[ast.operator], ...]) -> bool:
    outer = code.parent(binder)
    if isinstance(outer, ast.Assign):
        return test(outer.value)
    if isinstance(outer, ast.AnnAssign):
        return outer.value is not None and test(outer.value)
    if isinstance(outer, ast.AugAssign):
        return isinstance(outer.op, operators) and test(outer.value)
    if isinstance(outer, (ast.For, ast.comprehension)) and outer.target is binder:
        counted = outer.iter
        return isinstance(counted, ast.Call) and dotted(counted.func) == "range" and all(map(test, counted.args))
    if isinstance(outer, ast.Tuple):
        return _is_part_of_shape_or_count(code, binder, outer)
    return False


def _is_part_of_shape_or_count(code: Code, binder: ast.expr, names: ast.Tuple) -> bool:
    """Return whether a name is bound by `b, k = x.shape` or `for i, x in enumerate(…)`."""
    outer = code.parent(names)
    if isinstance(outer, ast.Assign):
        value = outer.value
        asks = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "size"
        return asks or (isinstance(value, ast.Attribute) and value.attr == "shape")
    if isinstance(outer, (ast.For, ast.comprehension)) and names.elts[0] is binder:
        counted = outer.iter
        return isinstance(counted, ast.Call) and dotted(counted.func) == "enumerate" and len(counted.args) == 1
    return False


def _is_parameter(name: str, function: Definition) -> bool:
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    return any(each.arg == name for each in every)


def _binders(name: str, function: Definition) -> list[ast.expr]:
    """Return the nodes of a function that bind a name."""
    names = (node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == name)
    return [node for node in names if not isinstance(node.ctx, ast.Load)]
