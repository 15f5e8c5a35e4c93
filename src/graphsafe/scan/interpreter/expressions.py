"""Expressions: what each one is worth, and what evaluating it makes the host wait for."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from graphsafe.scan.domain.joins import join_all
from graphsafe.scan.domain.state_log import Read
from graphsafe.scan.domain.values import (
    NONE,
    NUMBER,
    STR,
    UNKNOWN,
    Array,
    Dict,
    Instance,
    Number,
    Sequence,
    Tensor,
    Unknown,
    Value,
    number,
    options,
)
from graphsafe.scan.interpreter import calls, conditions, displays, members, operators, subscripts
from graphsafe.scan.symbols.index import dotted

if TYPE_CHECKING:
    from graphsafe.scan.interpreter.call_frame import Frame
    from graphsafe.scan.interpreter.engine import Engine


def evaluate(engine: Engine, frame: Frame, node: ast.expr) -> Value:
    handler = (_HANDLERS or _filled()).get(type(node))
    return UNKNOWN if handler is None else handler(engine, frame, node)


def evaluate_quietly(engine: Engine, frame: Frame, node: ast.expr) -> Value:
    """The value of an expression, read once more without noting what it does."""
    return engine.quietly(lambda: evaluate(engine, frame, node))


def _constant(engine: Engine, frame: Frame, node: ast.Constant) -> Value:
    return _literal(node.value)


@lru_cache(maxsize=4096, typed=True)
def _literal(const: object) -> Value:
    return NONE if const is None else number(const)


def _name(engine: Engine, frame: Frame, node: ast.Name) -> Value:
    value = engine.name(frame, node.id)
    if type(value) is Number and value.state is None and node.id not in frame.env and node.id in frame.file.assigns:
        return replace(value, state=f"{frame.path}::{node.id}")
    return value


def _attribute(engine: Engine, frame: Frame, node: ast.Attribute) -> Value:
    text = dotted(node)
    if text is not None and text in frame.env:
        value = frame.env[text]
        if frame.hot:
            _note_read(engine, frame, node)
        return value
    owner = evaluate(engine, frame, node.value)
    found = [members.attribute(engine, frame, node, option, node.attr, text) for option in options(owner)]
    return join_all(found) if found else UNKNOWN


def _note_read(engine: Engine, frame: Frame, node: ast.Attribute) -> None:
    if isinstance(node.value, ast.Name):
        owner = frame.env.get(node.value.id)
        if type(owner) is Instance:
            engine.note(Read(engine.attributes.key(owner.ref, node.attr)))


def element(engine: Engine, value: Value) -> Value:
    """What iterating over a value gives."""
    found: list[Value] = []
    for option in options(value):
        if isinstance(option, Sequence):
            found.append(option.elem)
        elif isinstance(option, Tensor):
            ndim = option.ndim - 1 if option.ndim is not None and option.ndim > 0 else None
            # An element of a host tensor may well be 0-d, which is as good as a number.
            sure = option.sure and not (option.where == "host" and option.ndim is None)
            found.append(replace(option, ndim=ndim, fresh=False, name=None, sure=sure))
        elif isinstance(option, Dict):
            keys = [number(key) for key, _ in option.items]
            found.append(join_all(keys) if keys else UNKNOWN)
        elif isinstance(option, Array):
            found.append(NUMBER)
        elif isinstance(option, Number):
            found.append(STR)
        elif isinstance(option, Unknown):
            found.append(option)
        else:
            found.append(UNKNOWN)
    return join_all(found) if found else UNKNOWN


def _call(engine: Engine, frame: Frame, node: ast.Call) -> Value:
    return calls.call(engine, frame, node)


def _lambda(engine: Engine, frame: Frame, node: ast.Lambda) -> Value:
    return engine.nested(frame, node, f"<lambda>:{node.lineno}")


def _named(engine: Engine, frame: Frame, node: ast.NamedExpr) -> Value:
    value = evaluate(engine, frame, node.value)
    displays.bind(engine, frame, node.target, value)
    return value


def _inner(engine: Engine, frame: Frame, node: ast.Await | ast.Starred) -> Value:
    return evaluate(engine, frame, node.value)


def _yield(engine: Engine, frame: Frame, node: ast.Yield) -> Value:
    if node.value is not None:
        frame.yields.append(evaluate(engine, frame, node.value))
    else:
        frame.yields.append(UNKNOWN)
    return UNKNOWN


def _yield_from(engine: Engine, frame: Frame, node: ast.YieldFrom) -> Value:
    frame.yields.append(element(engine, evaluate(engine, frame, node.value)))
    return UNKNOWN


def _slice(engine: Engine, frame: Frame, node: ast.Slice) -> Value:
    for bound in (node.lower, node.upper, node.step):
        if bound is not None:
            evaluate(engine, frame, bound)
    return UNKNOWN


Handler = Callable[["Engine", "Frame", Any], Value]
_HANDLERS: dict[type[ast.expr], Handler] = {}


def _filled() -> dict[type[ast.expr], Handler]:
    """The handlers, put together on first use: the modules that hold them import this one."""
    _HANDLERS.update(
        {
            ast.Constant: _constant,
            ast.Name: _name,
            ast.Attribute: _attribute,
            ast.BinOp: operators.binary_operation,
            ast.UnaryOp: operators.unary,
            ast.BoolOp: conditions.boolean,
            ast.Compare: operators.compare,
            ast.IfExp: conditions.conditional,
            ast.Tuple: displays.sequence_display("tuple"),
            ast.List: displays.sequence_display("list"),
            ast.Set: displays.sequence_display("set"),
            ast.Dict: displays.dict_display,
            ast.ListComp: displays.comprehension("list"),
            ast.SetComp: displays.comprehension("set"),
            ast.GeneratorExp: displays.comprehension("iterator"),
            ast.DictComp: displays.dict_comprehension,
            ast.JoinedStr: displays.joined_string,
            ast.Call: _call,
            ast.Lambda: _lambda,
            ast.NamedExpr: _named,
            ast.Await: _inner,
            ast.Starred: _inner,
            ast.Yield: _yield,
            ast.YieldFrom: _yield_from,
            ast.Subscript: subscripts.subscript,
            ast.Slice: _slice,
        }
    )
    return _HANDLERS
