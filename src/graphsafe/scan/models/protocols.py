"""What Python calls on objects of the project: `__len__`, `__bool__`, `__iter__` and their kin."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from graphsafe.scan.domain.arguments import Arguments
from graphsafe.scan.domain.joins import element_of, join_all
from graphsafe.scan.domain.values import UNKNOWN, Function, Instance, Union, Value, of_elements, options

if TYPE_CHECKING:
    from graphsafe.scan.interpreter.call_frame import Frame
    from graphsafe.scan.interpreter.engine import Engine


def called(engine: Engine, frame: Frame, node: ast.AST, value: Value, *names: str) -> Value | None:
    """What the first of these methods gives that an object has; None where it has none, or is no such object."""
    if type(value) is not Instance and type(value) is not Union:
        return None
    for option in options(value):
        if type(option) is not Instance:
            continue
        for name in names:
            method = engine.project.find_method(option.ref, name)
            if method is not None:
                return engine.call(frame, node, Function(method, option), Arguments())
    return None


def truth(engine: Engine, frame: Frame, node: ast.AST, value: Value) -> Value:
    """What Python asks for the truth of a value: of an object `__bool__`, or else `__len__`."""
    answer = called(engine, frame, node, value, "__bool__", "__len__")
    return value if answer is None else answer


def iterated(engine: Engine, frame: Frame, node: ast.AST, value: Value) -> Value:
    """What a loop goes through: of an object what `__iter__` gives, or else what `__getitem__` does."""
    if type(value) is not Instance and type(value) is not Union:
        return value
    made = called(engine, frame, node, value, "__iter__")
    if made is not None:
        items = called(engine, frame, node, made, "__next__")
        return made if items is None else of_elements("iterator", items)
    for option in options(value):
        if type(option) is not Instance:
            continue
        method = engine.project.find_method(option.ref, "__getitem__")
        if method is not None:
            item = engine.call(frame, node, Function(method, option), Arguments((UNKNOWN,)))
            return of_elements("iterator", item)
    return value


def key_called(engine: Engine, frame: Frame, node: ast.Call, arguments: Arguments) -> Value | None:
    """What the host compares in `sorted(rows, key=…)` and `max(…, key=…)`: the results of the key function."""
    key = arguments.keywords.get("key")
    if key is None or not arguments.positional:
        return None
    items = arguments.positional if len(arguments.positional) > 1 else (element_of(arguments.positional[0]),)
    return engine.call_value(frame, node, key, Arguments((join_all(items),)))


__all__ = ["called", "iterated", "key_called", "truth"]
