"""Finds which of several possible callees accept the arguments of a call. A call of any other callee would raise an
error.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence as Seq

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.values import Function, Instance, Value
from graphsafe.scan.execution.frame import Engine, Frame


def able(frame: Frame, receivers: Seq[Value], name: str, keywords: Seq[ast.keyword]) -> Seq[Value]:
    """Return the receivers that have a method with this name and these keywords. With any other receiver, the call
    would raise an error."""
    if len(receivers) < 2:
        return receivers
    left = [
        option
        for option in receivers
        if type(option) is not Instance
        or _takes(frame.engine, frame.project.find_method(option.ref, name), keywords)
        or frame.attributes.of_instance(option, name, frame.level) is not None
        or frame.project.has_foreign_base(option.ref)
    ]
    return left or receivers


def _takes(engine: Engine, method: str | None, keywords: Seq[ast.keyword]) -> bool:
    node = engine.project.function_node(method) if method is not None else None
    if node is None or node.args.kwarg is not None:
        return method is not None
    names = {parameter.arg for parameter in (*node.args.args, *node.args.kwonlyargs)}
    return all(keyword.arg is None or keyword.arg in names for keyword in keywords)


def fits(engine: Engine, value: Value, arguments: Arguments) -> bool:
    """Return whether a function or an object of the project may be called with these arguments. Return True for any
    other value."""
    ref = _called(engine, value)
    node = engine.project.function_node(ref) if ref is not None else None
    if ref is None or node is None or arguments.further:
        return True
    facts = engine.project.function_facts(ref)
    names = [parameter.arg for parameter in (*node.args.posonlyargs, *node.args.args)]
    if facts is not None and facts.is_method:
        names = names[1:]
    required = set(names[: len(names) - len(node.args.defaults)])
    taken = {*names, *(parameter.arg for parameter in node.args.kwonlyargs)}
    given = {*names[: len(arguments.positional)], *arguments.keywords}
    if node.args.vararg is None and len(arguments.positional) > len(names):
        return False
    return required <= given and (node.args.kwarg is not None or given <= taken)


def _called(engine: Engine, value: Value) -> str | None:
    """Return the function of the project that runs, with exactly the call's arguments, if a value is called. Return
    None for other values, such as closures and partial functions."""
    if type(value) is Function and value.node is None and not value.partial and not value.partial_keywords:
        return value.ref
    if type(value) is Instance:
        methods = (engine.project.find_method(value.ref, name) for name in ("__call__", "forward"))
        return next((method for method in methods if method is not None), None)
    return None
