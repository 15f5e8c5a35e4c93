"""Functions of `operator`, `functools` and `itertools`, which are read as the equivalent syntax."""

from __future__ import annotations

import ast

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.joins import element_of, join
from graphsafe.scan.domain.values import UNKNOWN, Function, Tensor, Value, as_tensor, of_elements
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.models import protocols


def item(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    """Return the value of `operator.getitem(a, b)`, which is `a[b]`."""
    if len(node.args) != 2 or any(isinstance(argument, ast.Starred) for argument in node.args):
        return UNKNOWN
    return frame.evaluate(ast.copy_location(ast.Subscript(node.args[0], node.args[1], ast.Load()), node))


def item_getter(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    """Return `operator.itemgetter(key)` as `lambda held: held[key]`."""
    if len(node.args) != 1 or isinstance(node.args[0], ast.Starred):
        return UNKNOWN
    return _of_one(frame, node, ast.Subscript(ast.Name("held", ast.Load()), node.args[0], ast.Load()))


def method_caller(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    """Return `operator.methodcaller("name", *given)` as `lambda held: held.name(*given)`."""
    name = node.args[0] if node.args else None
    if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
        return UNKNOWN
    method = ast.Attribute(ast.Name("held", ast.Load()), name.value, ast.Load())
    return _of_one(frame, node, ast.Call(method, node.args[1:], node.keywords))


def items_of(frame: Frame, node: ast.AST, tensor: Tensor) -> Value:
    """Return the bound method `tensor.__getitem__` as `lambda held: tensor[held]`."""
    body = ast.Subscript(ast.Name("self", ast.Load()), ast.Name("held", ast.Load()), ast.Load())
    made = _of_one(frame, node, body)
    return replace(made, closure={"self": tensor})


def _of_one(frame: Frame, node: ast.AST, body: ast.expr) -> Function:
    """Return a function of one argument, `held`."""
    parameters = ast.arguments([], [ast.arg("held")], None, [], [], None, [])
    made = ast.fix_missing_locations(ast.copy_location(ast.Lambda(parameters, body), node))
    return frame.engine.closures.define(frame, made)


def reduced(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    """Return the value of `functools.reduce(f, items)`, for which `f` is called with the result so far and one item."""
    if len(arguments.positional) < 2:
        return UNKNOWN
    function, items, *first = arguments.positional
    one = element_of(items)
    made = frame.call_value(node, function, Arguments((first[0] if first else one, one)))
    return join(one, made) if as_tensor(one)[0] is None else one


def chosen(frame: Frame, node: ast.Call, arguments: Arguments) -> Value:
    """Return the items of `filter(test, items)` or `takewhile(test, items)`. The host tests each result of `test`."""
    if len(arguments.positional) < 2:
        return UNKNOWN
    test, items = arguments.positional[:2]
    one = element_of(items)
    asked = protocols.truth(frame, node, frame.call_value(node, test, Arguments((one,))))
    frame.emit_if_on_device("Branch", "filter", node, asked)
    return of_elements("iterator", one)
