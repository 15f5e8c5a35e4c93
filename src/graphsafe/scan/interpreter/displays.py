"""Displays, comprehensions and formatted strings: values put together from others."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from graphsafe.scan.domain.joins import element_of, join, join_all, sequence
from graphsafe.scan.domain.values import (
    STR,
    UNKNOWN,
    DeviceValue,
    Dict,
    Number,
    Sequence,
    SequenceKind,
    Unknown,
    Value,
    depends_on_step,
    holds_device,
    of_elements,
)
from graphsafe.scan.interpreter.assignments import assign
from graphsafe.scan.interpreter.conditions import guards
from graphsafe.scan.interpreter.conditions.truth import truth
from graphsafe.scan.models import formatting, protocols

if TYPE_CHECKING:
    from graphsafe.scan.interpreter.call_frame import Frame
    from graphsafe.scan.interpreter.engine import Engine


def sequence_display(kind: SequenceKind) -> Callable[[Engine, Frame, Any], Value]:
    def handler(engine: Engine, frame: Frame, node: ast.Tuple | ast.List | ast.Set) -> Value:
        items: list[Value] = []
        open_ended = False
        for item in node.elts:
            if not isinstance(item, ast.Starred):
                items.append(engine.evaluate(frame, item))
                continue
            value = engine.evaluate(frame, item.value)
            if isinstance(value, Sequence) and value.items is not None:
                items.extend(value.items)
            else:
                items.append(element_of(value))
                open_ended = True
        return of_elements(kind, join_all(items)) if open_ended else sequence(kind, items)

    return handler


def dict_display(engine: Engine, frame: Frame, node: ast.Dict) -> Value:
    items: dict[Any, Value] = {}
    elem: Value | None = None
    for key, part in zip(node.keys, node.values, strict=True):
        value = engine.evaluate(frame, part)
        if key is None:
            if type(value) is Dict:
                items.update(value.items)
                value = value.elem
            else:
                value = Unknown(depends_on_step(value), holds_device(value))
        else:
            name = engine.evaluate(frame, key)
            if type(name) is Number and isinstance(name.const, (str, int, float, bool)):
                items[name.const] = value
        elem = value if elem is None else join(elem, value)
    return Dict(tuple(items.items())[:64], UNKNOWN if elem is None else elem)


def comprehension(kind: SequenceKind) -> Callable[[Engine, Frame, Any], Value]:
    def handler(engine: Engine, frame: Frame, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Value:
        before = frame.env
        frame.env = dict(before)
        known = _generators(engine, frame, node.generators)
        if known is not None:
            items = []
            for item in known:
                assign(engine, frame, node.generators[0].target, item, node.generators[0].target)
                items.append(engine.evaluate(frame, node.elt))
            result: Value = sequence(kind, items)
        else:
            result = of_elements(kind, engine.evaluate(frame, node.elt))
        frame.env = before
        return result

    return handler


def _generators(engine: Engine, frame: Frame, generators: list[ast.comprehension]) -> tuple[Value, ...] | None:
    """Bind the targets; the items themselves where there is one plain loop over a few known ones."""
    items: tuple[Value, ...] | None = None
    for generator in generators:
        iterable = protocols.iterated(engine, frame, generator.iter, engine.evaluate(frame, generator.iter))
        if (
            len(generators) == 1
            and not generator.ifs
            and type(iterable) is Sequence
            and iterable.items
            and len(iterable.items) <= 8
        ):
            items = iterable.items
        assign(engine, frame, generator.target, element_of(iterable), generator.target)
        for condition in generator.ifs:
            truth(engine, frame, condition, "if", condition)
            guards.narrow(engine, frame, frame.env, condition, True)
    return items


def dict_comprehension(engine: Engine, frame: Frame, node: ast.DictComp) -> Value:
    before = frame.env
    frame.env = dict(before)
    _generators(engine, frame, node.generators)
    engine.evaluate(frame, node.key)
    result = Dict((), engine.evaluate(frame, node.value))
    frame.env = before
    return result


def joined_string(engine: Engine, frame: Frame, node: ast.JoinedStr) -> Value:
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            formatting.format_item(engine, frame, node, engine.evaluate(frame, part.value))
    first = node.values[0] if node.values else None
    if isinstance(first, ast.Constant) and str(first.value).startswith("cuda"):
        return DeviceValue("device")
    return STR
