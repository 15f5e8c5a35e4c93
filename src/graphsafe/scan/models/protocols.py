"""Methods that Python itself calls on objects of the project, such as `__len__`, `__bool__` and `__iter__`."""

from __future__ import annotations

import ast

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.joins import element_of, join_all
from graphsafe.scan.domain.values import UNKNOWN, Function, Instance, Union, Value, of_elements, options
from graphsafe.scan.execution.frame import Frame

_OPERATORS: dict[type[ast.AST], str] = {
    **{ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod"},
    **{ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor"},
    **{ast.LShift: "lshift", ast.RShift: "rshift"},
}
_COMPARISONS: dict[type[ast.AST], tuple[str, str]] = {
    **{ast.Lt: ("__lt__", "__gt__"), ast.Gt: ("__gt__", "__lt__"), ast.LtE: ("__le__", "__ge__")},
    **{ast.GtE: ("__ge__", "__le__"), ast.Eq: ("__eq__", "__eq__"), ast.NotEq: ("__ne__", "__ne__")},
}
"The method of the left operand, and the reflected method of the right operand."
_SIGNS: dict[type[ast.AST], str] = {ast.USub: "__neg__", ast.UAdd: "__pos__", ast.Invert: "__invert__"}


def called(frame: Frame, node: ast.AST, value: Value, *names: str, arguments: Arguments | None = None) -> Value | None:
    """Call the first of the named methods that the object's class defines. Return None if it defines none of them."""
    if type(value) is not Instance and type(value) is not Union:
        return None
    for option in options(value):
        if type(option) is not Instance:
            continue
        for name in names:
            method = frame.project.find_method(option.ref, name)
            if method is not None:
                return frame.call(node, Function(method, option), arguments or Arguments())
    return None


def operated(frame: Frame, node: ast.AST, op: ast.operator, left: Value, right: Value, in_place: bool) -> Value | None:
    """Return the result of `left op right` if the class of an operand defines the operator, otherwise None."""
    name = _OPERATORS[type(op)]
    names = (f"__i{name}__", f"__{name}__") if in_place else (f"__{name}__",)
    found = called(frame, node, left, *names, arguments=Arguments((right,)))
    return called(frame, node, right, f"__r{name}__", arguments=Arguments((left,))) if found is None else found


def signed(frame: Frame, node: ast.AST, op: ast.unaryop, value: Value) -> Value | None:
    """Return the result of `-value`, `+value` or `~value` if the object's class defines it, otherwise None."""
    return called(frame, node, value, _SIGNS[type(op)]) if type(op) in _SIGNS else None


def compared(frame: Frame, node: ast.AST, op: ast.cmpop, left: Value, right: Value) -> Value | None:
    """Return the result of a comparison if the class of an operand defines the comparison, otherwise None. `!=` may use
    `__eq__` instead."""
    if isinstance(op, (ast.In, ast.NotIn)):
        return called(frame, node, right, "__contains__", arguments=Arguments((left,)))
    names = _COMPARISONS.get(type(op))
    if names is None:
        return None
    also = ("__eq__",) if isinstance(op, ast.NotEq) else ()
    found = called(frame, node, left, names[0], *also, arguments=Arguments((right,)))
    return called(frame, node, right, names[1], *also, arguments=Arguments((left,))) if found is None else found


def hashed(frame: Frame, node: ast.AST, key: Value) -> None:
    """Read the `__hash__` and `__eq__` of an object that is used as a key."""
    called(frame, node, key, "__hash__")
    called(frame, node, key, "__eq__", arguments=Arguments((key,)))


def truth(frame: Frame, node: ast.AST, value: Value) -> Value:
    """Return the value that Python tests for truth: the result of `__bool__` or `__len__`, or the value itself."""
    answer = called(frame, node, value, "__bool__", "__len__")
    return value if answer is None else answer


def iterated(frame: Frame, node: ast.AST, value: Value) -> Value:
    """Return the value over which a loop iterates: the result of `__iter__` or `__getitem__`, or the value itself."""
    made = called(frame, node, value, "__iter__")
    if made is not None:
        items = called(frame, node, made, "__next__")
        return made if items is None else of_elements("iterator", items)
    item = called(frame, node, value, "__getitem__", arguments=Arguments((UNKNOWN,)))
    return value if item is None else of_elements("iterator", item)


def key_called(frame: Frame, node: ast.Call, arguments: Arguments) -> Value | None:
    """Return the join of the key function's results, which the host compares in `sorted(rows, key=…)`. Return None
    without a key function."""
    key = arguments.keywords.get("key")
    if key is None or not arguments.positional:
        return None
    return frame.call_value(node, key, Arguments((candidates(arguments),)))


def candidates(arguments: Arguments) -> Value:
    """Return the join of the values that `max` or `sorted` compares: the arguments, or the elements of a single
    argument."""
    given = arguments.positional
    return join_all(given) if len(given) > 1 else element_of(given[0])
