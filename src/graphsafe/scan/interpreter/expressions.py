"""Expressions: the value of each kind of expression, and the host waits that its evaluation causes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.joins import element_of, join_all
from graphsafe.scan.domain.values import NONE, UNKNOWN, Instance, NoneValue, Number, Union, Value, number, options
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.interpreter import displays, members, operators, shared_state, subscripts
from graphsafe.scan.interpreter.assignments import assign
from graphsafe.scan.interpreter.calls import calls
from graphsafe.scan.interpreter.conditions.truth import boolean, conditional
from graphsafe.scan.state import straight_line
from graphsafe.scan.symbols.index import dotted


@lru_cache(maxsize=4096, typed=True)
def _literal(const: object) -> Value:
    return NONE if const is None else number(const)


def _name(frame: Frame, node: ast.Name) -> Value:
    if node.id in frame.globals and frame.hot:
        frame.engine.note_read(frame, f"{frame.path}::{node.id}")
    value = frame.name(node.id)
    if node.id in frame.env:
        return value
    if type(value) is not Number or value.state:
        return shared_state.of_name(frame, node.id, value)
    is_own = frame.project.assigned(frame.path, node.id)
    return replace(value, state=(f"{frame.path}::{node.id}",)) if is_own else value


def _attribute(frame: Frame, node: ast.Attribute) -> Value:
    inner = node.value
    text = f"{inner.id}.{node.attr}" if type(inner) is ast.Name else dotted(node)
    if text is not None and text in frame.env:
        value = frame.env[text]
        if frame.hot:
            _note_read(frame, node)
        return value
    owner = frame.evaluate(node.value)
    if type(owner) is not Union and type(owner) is not NoneValue:
        return members.attribute(frame, node, owner, node.attr, text)
    owners = members.having_attribute(frame, options(owner), node.attr)
    return join_all(members.attribute(frame, node, option, node.attr, text) for option in owners)


def _note_read(frame: Frame, node: ast.Attribute) -> None:
    if isinstance(node.value, ast.Name):
        owner = frame.env.get(node.value.id)
        if type(owner) is Instance:
            is_own = straight_line.is_set_before(frame, node, f"{node.value.id}.{node.attr}")
            frame.engine.note_read(frame, frame.attributes.key(owner.ref, node.attr), is_own)


def _named(frame: Frame, node: ast.NamedExpr) -> Value:
    value = frame.evaluate(node.value)
    assign(frame, node.target, value, node.target)
    return value


def _yield(frame: Frame, node: ast.Yield) -> Value:
    frame.yields.append(UNKNOWN if node.value is None else frame.evaluate(node.value))
    return UNKNOWN


def _yield_from(frame: Frame, node: ast.YieldFrom) -> Value:
    frame.yields.append(element_of(frame.evaluate(node.value)))
    return UNKNOWN


def _slice(frame: Frame, node: ast.Slice) -> Value:
    for bound in filter(None, (node.lower, node.upper, node.step)):
        frame.evaluate(bound)
    return UNKNOWN


Handler = Callable[["Frame", Any], Value]
HANDLERS: Mapping[type[ast.expr], Handler] = {
    ast.Constant: lambda frame, node: _literal(node.value),
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.BinOp: operators.binary_operation,
    ast.UnaryOp: operators.unary,
    ast.BoolOp: boolean,
    ast.Compare: operators.compare,
    ast.IfExp: conditional,
    ast.Tuple: displays.sequence_display("tuple"),
    ast.List: displays.sequence_display("list"),
    ast.Set: displays.sequence_display("set"),
    ast.Dict: displays.dict_display,
    ast.ListComp: displays.comprehension("list"),
    ast.SetComp: displays.comprehension("set"),
    ast.GeneratorExp: displays.comprehension("iterator"),
    ast.DictComp: displays.dict_comprehension,
    ast.JoinedStr: displays.joined_string,
    ast.Call: calls.call,
    ast.Lambda: lambda frame, node: frame.engine.closures.define(frame, node),
    ast.NamedExpr: _named,
    ast.Await: lambda frame, node: frame.evaluate(node.value),
    ast.Starred: lambda frame, node: frame.evaluate(node.value),
    ast.Yield: _yield,
    ast.YieldFrom: _yield_from,
    ast.Subscript: subscripts.subscript,
    ast.Slice: _slice,
}
